// expert_gate_up: the first half of the experts, by row and grouped by expert.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/bounds.h"
#include "tests/ops/expert_ops.h"
#include "tests/ops/op_test.h"

namespace lily::ops {
namespace {

/// silu(gate) · up with the errors of both carried through; the slope of silu is at most 1.1.
Expected bounded_gate_up(const ref::Matrix& weight, const Values& x, ActivationType type) {
  const Expected both = bounded_linear(weight, x, {}, type);
  const size_t width = weight.rows() / 2;
  Expected out;
  for (size_t i = 0; i < both.value.size() / 2; ++i) {
    const size_t gate = i / width * 2 * width + i % width;
    const size_t up = gate + width;
    const double activated = ref::silu(both.value[gate]);
    const double gate_error = 1.1 * both.bound[gate] + kFloatSlack * std::abs(activated);
    out.value.push_back(activated * both.value[up]);
    out.bound.push_back(gate_error * (std::abs(both.value[up]) + both.bound[up]) +
                        std::abs(activated) * both.bound[up]);
  }
  store_rounded(out, type);
  return out;
}

Expected expected_hidden(const std::vector<const QuantTensor*>& parts, const Values& normed,
                         const std::vector<uint32_t>& chosen, ActivationType type) {
  const size_t width = parts.front()->cols;
  const size_t choices = chosen.size() / (normed.size() / width);
  Expected all;
  for (size_t pair = 0; pair < chosen.size(); ++pair) {
    const auto row = ref::row_of(normed, pair / choices, width);
    const Expected one = bounded_gate_up(ref::Matrix(parts, chosen[pair]), Values(row.begin(), row.end()), type);
    all.value.insert(all.value.end(), one.value.begin(), one.value.end());
    all.bound.insert(all.bound.end(), one.bound.begin(), one.bound.end());
  }
  return all;
}

void check_gate_up(const OpParam& param, PlanMode mode, uint32_t bits, uint32_t rows) {
  const ModelShape shape = param.shape();
  const ExpertStores stores(shape, bits);
  const ref::Routing routing = uneven_routing(shape, rows, 61);
  const Values normed = random_activations(size_t{rows} * shape.hidden, 1.0, param.activation, 62);
  RowOp op{.shape = shape, .activation = param.activation, .mode = mode, .rows = rows};
  op.inputs = {{.name = "normed", .width = shape.hidden, .values = normed},
               experts_input(routing, shape.experts_per_token)};
  op.outputs = {{.name = "hidden",
                 .width = size_t{shape.experts_per_token} * shape.expert_intermediate,
                 .expected = expected_hidden(stores.gate_up(), normed, routing.experts, param.activation)},
                {.name = "shared_hidden",
                 .width = shape.shared_intermediate,
                 .expected = bounded_gate_up(ref::Matrix(stores.shared_gate_up()), normed, param.activation)}};
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
