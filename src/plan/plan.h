// A plan: buffers and ops of one program, built once for a mode and size, then compiled by a backend.
// Owns declaration, validation, byte counts and the text dump; order and memory come from schedule.h and memory_plan.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/shape.h"
#include "plan/op.h"
#include "plan/weight_table.h"

namespace lily {

enum class ActivationType : uint8_t { kBf16, kF32 };
constexpr uint32_t activation_bytes(ActivationType type) {
  return type == ActivationType::kBf16 ? 2 : 4;
}

enum class BufferKind : uint8_t {
  kTemp,   // lives inside one submit; memory is planned from its lifetime
  kState,  // allocated once by the owner of the model and bound at compile
};

struct PlanBuffer {
  std::string name;
  BufferKind kind = BufferKind::kTemp;
  uint64_t bytes = 0;
};

/// Sizes of everything that outlives a step; one instance a loaded model.
struct StateSizes {
  uint32_t sequences = 1;          // rows of block table, mailbox and token counts
  uint32_t state_slots = 2;        // recurrent states, live and snapshots
  uint32_t kv_blocks = 0;          // blocks in the pool
  uint32_t blocks_a_sequence = 0;  // columns of the block table
  uint32_t max_logit_rows = 1;     // rows of the logits buffer
};

enum class PlanMode : uint8_t { kDecode, kPrefill };

struct PlanOptions {
  PlanMode mode = PlanMode::kDecode;
  uint32_t max_rows = 1;     // row bucket
  uint32_t max_context = 0;  // context bucket: no row lies at or beyond this position
  ActivationType activation = ActivationType::kBf16;
  bool capture_hidden = false;  // keep the residual stream of every layer in the state buffer `hidden`
};

struct Plan {
  std::string name;
  PlanOptions options;
  StateSizes sizes;
  ModelShape shape;
  std::vector<PlanBuffer> buffers;
  std::vector<Op> ops;
  const WeightTable* weight_table = nullptr;  // outlives the plan

  /// Adds an op; operands must be declared and inside their buffers.
  void add(const Op& op);
  /// Index of the state buffer with this name; aborts when there is none.
  uint32_t state(std::string_view buffer_name) const;
};

/// Declares buffers and hands out references; used by the plan files only.
class PlanBuilder {
 public:
  PlanBuilder(std::string name, const ModelShape& shape, const StateSizes& sizes, const PlanOptions& options,
              const WeightTable& weights);
  Ref temp(std::string name, uint64_t bytes);
  Ref state(std::string name, uint64_t bytes);
  Plan take() { return std::move(plan_); }
  Plan& plan() { return plan_; }

 private:
  Ref declare(std::string name, BufferKind kind, uint64_t bytes);
  Plan plan_;
};

/// The forward program of a decode step: up to max_rows runs of few rows.
Plan decode_plan(const ModelShape& shape, const StateSizes& sizes, const PlanOptions& options,
                 const WeightTable& weights);
/// The forward program of a prefill chunk.
Plan prefill_plan(const ModelShape& shape, const StateSizes& sizes, const PlanOptions& options,
                  const WeightTable& weights);
/// The sampling program over the logits that a forward program left.
Plan sample_plan(const ModelShape& shape, const StateSizes& sizes, const PlanOptions& options,
                 const WeightTable& weights);

/// Bytes of weights that one step with `rows` rows reads: each weight once, routed experts at most min(E, rows · k)
/// times.
uint64_t weight_bytes_read(const Plan& plan, uint32_t rows);
/// One line an op with its operands, for golden files and for people.
std::string dump(const Plan& plan);

}  // namespace lily
