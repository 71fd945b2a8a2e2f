// A backend without a model: KV blocks hold token ids, the recurrent state holds a hash of what was fed, and logits
// come from a script. Every step checks that the blocks and the state it was given hold the same history, so a wrong
// block table, slot, fork or copy shows as a violation.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace lily::test {

/// Fills the logits that follow a history of tokens.
using LogitScript = std::function<void(std::span<const uint32_t> history, std::span<float> logits)>;

/// The likely next token is the last one plus one, modulo `vocabulary`.
LogitScript count_up(uint32_t vocabulary);
/// After the prompt of `prompt_tokens` come these tokens, one by one, then the last of them again and again.
LogitScript recite(uint32_t prompt_tokens, std::vector<uint32_t> tokens);

/// Two Gated DeltaNet and two attention layers, small.
ModelShape tiny_shape(uint32_t vocab, uint32_t max_positions = 4096);
/// A weight table whose views have sizes and no data.
WeightTable tiny_weights(const ModelShape& shape);

class FakeBackend : public Backend {
 public:
  struct Options {
    uint32_t depth = 1;
    LogitScript logits = {};
    std::optional<uint64_t> fault_at = {};  // wait() for this forward step throws, counting from 0
  };
  /// A forward step as it was submitted.
  struct Recorded {
    PlanMode mode = PlanMode::kDecode;
    uint32_t bucket = 0;
    Step step;
  };
  struct Record {
    std::vector<Recorded> steps;
    uint64_t most_in_flight = 0;
    uint64_t adopted = 0;
    uint64_t copies = 0;
    std::vector<std::string> violations;
  };

  explicit FakeBackend(Options options);
  ~FakeBackend() override;
  /// Outlives the backend.
  std::shared_ptr<Record> record() const { return record_; }

  std::string_view name() const override { return "fake"; }
  std::string description() const override { return "fake backend for tests"; }
  BackendMemory memory() const override;
  uint32_t depth() const override { return options_.depth; }
  WeightHandle adopt(const WeightView& view) override;
  BufferHandle allocate(uint64_t bytes, std::string_view buffer_name) override;
  void free(BufferHandle buffer) override;
  void write(BufferHandle buffer, uint64_t offset, std::span<const std::byte> bytes) override;
  void read(BufferHandle buffer, uint64_t offset, std::span<std::byte> bytes) override;
  void copy(BufferHandle to, uint64_t to_offset, BufferHandle from, uint64_t from_offset, uint64_t bytes) override;
  std::unique_ptr<Program> compile(const Plan& plan, const Bindings& bindings) override;
  void wait(Ticket ticket) override;

 private:
  friend class FakeProgram;
  /// Work in submission order; with a depth above 1 it is done as late as the contract allows.
  struct Work {
    std::function<void()> run;
    uint64_t ticket = 0;  // 0: a write or copy
  };
  Ticket enqueue(std::function<void()> work, bool is_submit);
  void drain(uint64_t up_to_ticket);

  Options options_;
  std::shared_ptr<Record> record_ = std::make_shared<Record>();
  std::vector<std::vector<std::byte>> buffers_;
  std::deque<Work> queue_;
  std::vector<uint64_t> fault_tickets_;
  uint64_t next_ticket_ = 1;
  uint64_t weights_bytes_ = 0;
};

}  // namespace lily::test
