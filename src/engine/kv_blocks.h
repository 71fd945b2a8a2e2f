// The pool of KV blocks as indices with reference counts, and the list of blocks of one sequence with copy on write.
// Knows no device: copies are returned for the owner of the device to make.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/step.h"

namespace lily {

/// Reference-counted block indices 0 .. capacity - 1.
class KvBlockPool {
 public:
  explicit KvBlockPool(uint32_t capacity);

  uint32_t capacity() const { return static_cast<uint32_t>(references_.size()); }
  uint32_t available() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t references(uint32_t block) const { return references_.at(block); }
  /// A block with one reference; there must be one available.
  uint32_t allocate();
  void retain(uint32_t block);
  void release(uint32_t block);

 private:
  std::vector<uint32_t> references_;
  std::vector<uint32_t> free_;
};

/// A whole block to copy, device to device.
struct BlockCopy {
  uint32_t from = 0;
  uint32_t to = 0;
};

/// The blocks of one sequence: block i holds tokens 64 i .. 64 i + 63.
class BlockList {
 public:
  /// What extend() did: copies to make before the next submit, and the range of entries that changed.
  struct Change {
    std::vector<BlockCopy> copies;
    uint32_t first = 0;
    uint32_t count = 0;
  };

  std::span<const uint32_t> blocks() const { return blocks_; }
  /// Blocks that extend() would take from the pool.
  uint32_t needed(const KvBlockPool& pool, uint32_t length, uint32_t rows) const;
  /// Makes positions length .. length + rows - 1 writable: new blocks at the end, and a private copy of a partly filled
  /// shared one. needed() blocks must be available.
  Change extend(KvBlockPool& pool, uint32_t length, uint32_t rows);
  /// Another list over the blocks that hold the first `length` tokens, all shared.
  BlockList fork(KvBlockPool& pool, uint32_t length) const;
  void clear(KvBlockPool& pool);

 private:
  std::vector<uint32_t> blocks_;
};

}  // namespace lily
