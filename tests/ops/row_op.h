// Ops whose output rows depend only on the same rows of their inputs: one description, and one driver that runs it on
// every backend, against the reference, at every row count where routes change, and bit for bit in any cut.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/ops/bounds.h"
#include "tests/ops/op_rig.h"

namespace lily::ops {

struct RowInput {
  std::string name;
  ElementType type = ElementType::kActivation;
  size_t width = 0;    // elements a row
  Values values = {};  // [rows, width], representable in the buffer
};

struct RowOutput {
  std::string name;  // an input's name where the op works in place
  ElementType type = ElementType::kActivation;
  size_t width = 0;
  Expected expected = {};  // [rows, width]
};

struct RowOp {
  ModelShape shape;
  ActivationType activation = ActivationType::kBf16;
  PlanMode mode = PlanMode::kPrefill;
  uint32_t rows = 0;
  std::vector<RowInput> inputs = {};
  std::vector<RowOutput> outputs = {};
  /// Adds weights, scratch buffers and ops; inputs and outputs are declared already.
  std::function<void(OpRig&)> build = {};
  /// The step over rows [first, first + count); unset: one run of sequence 0.
  std::function<Step(uint32_t first, uint32_t count)> step = {};
};

/// Row counts at the edges of routes, those up to `rows`.
std::vector<uint32_t> edge_row_counts(uint32_t rows);

/// Runs the op everywhere and compares; failures go to the running test.
void check_row_op(const RowOp& op);

/// "bf16" or "f32", for test names.
std::string activation_name(ActivationType type);

}  // namespace lily::ops
