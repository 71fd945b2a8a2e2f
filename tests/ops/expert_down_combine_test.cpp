// expert_down_combine: the second half of the experts, weighed by the scores and added to the residual stream.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/bounds.h"
#include "tests/ops/expert_ops.h"
#include "tests/ops/op_test.h"

namespace lily::ops {
namespace {

struct CombineCase {
  ref::Routing routing;
  Values hidden, shared_hidden, residual;
};

CombineCase combine_case(const ModelShape& shape, uint32_t rows, ActivationType type) {
  CombineCase made;
  made.routing = uneven_routing(shape, rows, 71);
  for (double& score : made.routing.scores) score = static_cast<double>(static_cast<float>(score));
  const size_t pairs = size_t{rows} * shape.experts_per_token;
  made.hidden = random_activations(pairs * shape.expert_intermediate, 0.5, type, 72);
  add_awkward_rows(made.hidden, shape.expert_intermediate, type);
  made.shared_hidden = random_activations(size_t{rows} * shape.shared_intermediate, 0.5, type, 73);
  made.residual = random_activations(size_t{rows} * shape.hidden, 1.0, type, 74);
  return made;
}

void add_scaled(std::span<double> sum, std::span<double> bound, const Expected& parts, size_t row, double score) {
  const size_t width = sum.size();
  for (size_t c = 0; c < width; ++c) {
    const double value = parts.value[row * width + c];
    sum[c] += score * value;
    bound[c] += score * (parts.bound[row * width + c] + 2 * kFloatSlack * std::abs(value));
  }
}

Expected expected_residual(const ExpertStores& stores, const CombineCase& made, uint32_t rows, ActivationType type) {
  const size_t width = made.residual.size() / rows;
  const size_t choices = made.routing.experts.size() / rows;
  const Expected routed = bounded_experts({&stores.down.tensor()}, made.hidden, made.routing.experts, 1, type);
  const Expected shared = bounded_linear(ref::Matrix(stores.shared_down.tensor()), made.shared_hidden, {}, type);
  Expected sum{made.residual, Values(made.residual.size(), 0.0)};
  for (size_t r = 0; r < rows; ++r) {
    const auto value = ref::row_of(sum.value, r, width);
    const auto bound = ref::row_of(sum.bound, r, width);
    const auto scores = ref::row_of(made.routing.scores, r, choices + 1);
    for (size_t j = 0; j < choices; ++j) add_scaled(value, bound, routed, r * choices + j, scores[j]);
    add_scaled(value, bound, shared, r, scores[choices]);
  }
  store_rounded(sum, type);
  return sum;
}

void check_down_combine(const OpParam& param, PlanMode mode, uint32_t bits, uint32_t rows) {
  const ModelShape shape = param.shape();
  const ExpertStores stores(shape, bits);
  const CombineCase made = combine_case(shape, rows, param.activation);
  const uint32_t chosen = shape.experts_per_token;
  RowOp op{.shape = shape, .activation = param.activation, .mode = mode, .rows = rows};
  op.inputs = {
      {.name = "hidden", .width = size_t{chosen} * shape.expert_intermediate, .values = made.hidden},
      {.name = "shared_hidden", .width = shape.shared_intermediate, .values = made.shared_hidden},
      experts_input(made.routing, chosen),
      {.name = "scores", .type = ElementType::kF32, .width = size_t{chosen} + 1, .values = made.routing.scores},
      {.name = "residual", .width = shape.hidden, .values = made.residual}};
  op.outputs = {
      {.name = "residual", .width = shape.hidden, .expected = expected_residual(stores, made, rows, param.activation)}};
  op.build = [&](OpRig& rig) {
    const Ref groups = add_groups(rig, op);
    rig.add(ExpertDownCombine{.down = rig.stack({&stores.down.tensor()}),
                              .shared_down = rig.stack({&stores.shared_down.tensor()}),
                              .hidden = rig.buffer("hidden"),
                              .shared_hidden = rig.buffer("shared_hidden"),
                              .experts = rig.buffer("experts"),
                              .groups = groups,
                              .scores = rig.buffer("scores"),
                              .residual = rig.buffer("residual")});
  };
  check_row_op(op);
}

using expert_down_combine = OpTest;

TEST_P(expert_down_combine, ByRow) {
  check_down_combine(GetParam(), PlanMode::kDecode, 4, GetParam().rows(9, 3));
}
TEST_P(expert_down_combine, Grouped) {
  check_down_combine(GetParam(), PlanMode::kPrefill, 4, GetParam().rows(130, 9));
}
TEST_P(expert_down_combine, TakesEightBits) {
  check_down_combine(GetParam(), PlanMode::kPrefill, 8, GetParam().rows(17, 2));
}

LILY_OP_SUITE(expert_down_combine);

}  // namespace
}  // namespace lily::ops
