// A sequence on the device: the tokens that were fed, the KV blocks and the recurrent state that hold them.
// Owns the allocation of sequence slots, state slots and KV blocks; what is fed is the scheduler's business.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/kv_blocks.h"
#include "plan/step.h"

namespace lily {

class ModelRunner;
class Session;

/// Slots and blocks of one runner. Outlives its sessions.
class SessionPool {
 public:
  explicit SessionPool(ModelRunner& runner);
  SessionPool(const SessionPool&) = delete;
  SessionPool& operator=(const SessionPool&) = delete;

  /// An empty session. kBusy when every sequence slot is taken.
  Result<Session> open();
  uint32_t free_sequences() const { return static_cast<uint32_t>(free_sequences_.size()); }
  const KvBlockPool& blocks() const { return blocks_; }

 private:
  friend class Session;
  ModelRunner& runner_;
  KvBlockPool blocks_;
  std::vector<uint32_t> free_sequences_;
  std::vector<uint32_t> free_states_;
};

/// Move-only handle; closing it frees its slots. Not usable while a request on it is running.
class Session {
 public:
  Session(Session&& other) noexcept;
  Session& operator=(Session&& other) noexcept;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// Tokens whose state is held, in order: fed, not merely returned. The last token of an answer is usually not fed.
  std::span<const uint32_t> fed() const { return fed_; }
  uint32_t length() const { return static_cast<uint32_t>(fed_.size()); }
  /// Forgets everything.
  void reset();
  /// A second session with the same past: full KV blocks are shared, the recurrent state is copied. kBusy when no slot
  /// is left.
  Result<Session> fork();

  /// Makes room for `rows` more tokens: grows and unshares blocks and writes the block table. kBusy when the pool is
  /// empty; nothing has changed then.
  Result<void> reserve(uint32_t rows);
  /// A run of `rows` tokens at the end of the session; reserve() them first, append() them after submitting.
  Run next_run(uint32_t rows) const;
  void append(std::span<const uint32_t> tokens);
  /// Fixes the id of a token that was fed from the mailbox before the host knew it.
  void resolve(uint32_t position, uint32_t token);
  uint32_t sequence() const { return sequence_; }

 private:
  friend class SessionPool;
  Session(SessionPool& pool, uint32_t sequence, uint32_t state);
  void close();

  SessionPool* pool_;  // nullptr after a move
  uint32_t sequence_;
  uint32_t state_;
  std::vector<uint32_t> fed_;
  BlockList blocks_;
};

}  // namespace lily
