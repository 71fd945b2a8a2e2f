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
  made.shared_hidden = random_activations(size_t{rows} * shape.shared_intermediate, 0.5, type, 73);
  made.residual = random_activations(size_t{rows} * shape.hidden, 1.0, type, 74);
  return made;
}

void add_scaled(Expected& sum, size_t at, const Expected& part, double score) {
  for (size_t c = 0; c < part.value.size(); ++c) {
    sum.value[at + c] += score * part.value[c];
    sum.bound[at + c] += score * (part.bound[c] + 2 * kFloatSlack * std::abs(part.value[c]));
  }
}

Expected expected_residual(const ExpertStores& stores, const CombineCase& made, uint32_t rows, ActivationType type) {
  const size_t width = made.residual.size() / rows;
  const size_t choices = made.routing.experts.size() / rows;
  const size_t inner = made.hidden.size() / made.routing.experts.size();
  const size_t shared_inner = made.shared_hidden.size() / rows;
  Expected sum{made.residual, Values(made.residual.size(), 0.0)};
  for (size_t r = 0; r < rows; ++r) {
    for (size_t j = 0; j < choices; ++j) {
      const size_t pair = r * choices + j;
      const auto x = ref::row_of(made.hidden, pair, inner);
      const ref::Matrix down({&stores.down.tensor()}, made.routing.experts[pair]);
      add_scaled(sum, r * width, bounded_linear(down, Values(x.begin(), x.end()), {}, type),
                 made.routing.scores[r * (choices + 1) + j]);
    }
    const auto x = ref::row_of(made.shared_hidden, r, shared_inner);
    add_scaled(sum, r * width,
               bounded_linear(ref::Matrix(stores.shared_down.tensor()), Values(x.begin(), x.end()), {}, type),
               made.routing.scores[r * (choices + 1) + choices]);
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
