// expert_gate_up: the first half of the experts, by row and grouped by expert.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/bounds.h"
#include "tests/ops/expert_ops.h"
#include "tests/ops/op_test.h"

namespace lily::ops {
namespace {

/// silu(gate) · up of [rows, 2 I] products with the errors of both carried through; the slope of silu is at most 1.1.
Expected activated(const Expected& both, size_t width, ActivationType type) {
  Expected out;
  for (size_t i = 0; i < both.value.size() / 2; ++i) {
    const size_t gate = i / width * 2 * width + i % width;
    const size_t up = gate + width;
    const double open = ref::silu(both.value[gate]);
    const double gate_error = 1.1 * both.bound[gate] + kFloatSlack * std::abs(open);
    out.value.push_back(open * both.value[up]);
    out.bound.push_back(gate_error * (std::abs(both.value[up]) + both.bound[up]) + std::abs(open) * both.bound[up]);
  }
  store_rounded(out, type);
  return out;
}

void check_gate_up(const OpParam& param, PlanMode mode, uint32_t bits, uint32_t rows) {
  const ModelShape shape = param.shape();
  const ExpertStores stores(shape, bits);
  const ref::Routing routing = uneven_routing(shape, rows, 61);
  Values normed = random_activations(size_t{rows} * shape.hidden, 1.0, param.activation, 62);
  add_awkward_rows(normed, shape.hidden, param.activation);
  RowOp op{.shape = shape, .activation = param.activation, .mode = mode, .rows = rows};
  op.inputs = {{.name = "normed", .width = shape.hidden, .values = normed},
               experts_input(routing, shape.experts_per_token)};
  op.outputs = {
      {.name = "hidden",
       .width = size_t{shape.experts_per_token} * shape.expert_intermediate,
       .expected = activated(
           bounded_experts(stores.gate_up(), normed, routing.experts, shape.experts_per_token, param.activation),
           shape.expert_intermediate, param.activation)},
      {.name = "shared_hidden",
       .width = shape.shared_intermediate,
       .expected = activated(bounded_linear(ref::Matrix(stores.shared_gate_up()), normed, {}, param.activation),
                             shape.shared_intermediate, param.activation)}};
  op.build = [&](OpRig& rig) {
    const Ref groups = add_groups(rig, op);
    rig.add(ExpertGateUp{.normed = rig.buffer("normed"),
                         .experts = rig.buffer("experts"),
                         .groups = groups,
                         .gate_up = rig.stack(stores.gate_up()),
                         .shared_gate_up = rig.stack(stores.shared_gate_up()),
                         .hidden = rig.buffer("hidden"),
                         .shared_hidden = rig.buffer("shared_hidden")});
  };
  check_row_op(op);
}

using expert_gate_up = OpTest;

TEST_P(expert_gate_up, ByRow) {
  check_gate_up(GetParam(), PlanMode::kDecode, 4, GetParam().rows(9, 3));
}
TEST_P(expert_gate_up, Grouped) {
  check_gate_up(GetParam(), PlanMode::kPrefill, 4, GetParam().rows(130, 9));
}
TEST_P(expert_gate_up, TakesEightBits) {
  check_gate_up(GetParam(), PlanMode::kPrefill, 8, GetParam().rows(17, 2));
}

LILY_OP_SUITE(expert_gate_up);

}  // namespace
}  // namespace lily::ops
