// Runs plans on a backend: adopts weights, owns state buffers and compiled programs, reads results.
// Knows slots and blocks as numbers only; which sequence uses which is session.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "engine/kv_blocks.h"
#include "plan/plan.h"
#include "plan/step.h"

namespace lily {

struct RunnerOptions {
  StateSizes sizes;
  ActivationType activation = ActivationType::kBf16;
  uint32_t max_chunk = 512;  // rows of the largest prefill program
  bool capture_hidden = false;
};

class ModelRunner {
 public:
  /// Called after a weight has been adopted, with the bytes done and in all.
  using OnAdopted = std::function<void(const WeightView& view, uint64_t done, uint64_t total)>;

  /// Adopts every weight of the table and allocates the state buffers. `table` may refer to nothing that dies before
  /// the runner.
  ModelRunner(std::unique_ptr<Backend> backend, ModelShape shape, WeightTable table, const RunnerOptions& options,
              const OnAdopted& on_adopted = {});
  ~ModelRunner();
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  Backend& backend() { return *backend_; }
  const Backend& backend() const { return *backend_; }
  const ModelShape& shape() const { return shape_; }
  const RunnerOptions& options() const { return options_; }
  const StateSizes& sizes() const { return options_.sizes; }

  /// Submits the forward program whose row bucket fits the step, compiling it on first use.
  Ticket forward(PlanMode mode, const Step& step);
  /// Submits the sampling program over the logits of the forward step before.
  Ticket sample(const Step& step);
  void wait(Ticket ticket) { backend_->wait(ticket); }

  /// Results of the first `count` logit rows of a finished step.
  std::vector<SampleResult> samples(uint32_t ring, uint32_t count);
  /// Logits of the last forward step, rows first .. first + rows - 1: [rows, vocab].
  void logits(uint32_t first, uint32_t rows, std::vector<float>& out);
  /// Residual stream of the last forward step of `rows` rows in `mode`, as floats: [layers + 1][rows, hidden].
  std::vector<float> hidden(PlanMode mode, uint32_t rows);

  void write_block_table(uint32_t sequence, uint32_t first, std::span<const uint32_t> blocks);
  /// Marks the ids of a prompt for the repetition penalty and clears the generated counts of the sequence.
  void write_token_counts(uint32_t sequence, std::span<const uint32_t> prompt);
  void copy_block(BlockCopy copy);
  /// Copies recurrent state and conv window of all layers.
  void copy_state(uint32_t from, uint32_t to);

 private:
  struct Compiled {
    std::unique_ptr<Program> program;
    BufferHandle hidden;  // with capture_hidden
    uint32_t max_rows = 0;
  };
  struct Allocation {
    BufferHandle handle;
    uint64_t bytes = 0;
  };
  Compiled& forward_program(PlanMode mode, uint32_t rows);
  Compiled compile(const Plan& plan);
  BufferHandle state_buffer(const PlanBuffer& buffer);
  BufferHandle named(const char* name) const;

  std::unique_ptr<Backend> backend_;
  ModelShape shape_;
  WeightTable table_;
  RunnerOptions options_;
  std::vector<WeightHandle> weights_;
  std::map<std::string, Allocation, std::less<>> buffers_;     // state buffers by name
  std::map<std::pair<PlanMode, uint32_t>, Compiled> forward_;  // by mode and row bucket
  Compiled sample_;
};

}  // namespace lily
