// norm_router, router_top_k and expert_group: from the residual to the experts of every row.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "tests/ops/backends.h"
#include "tests/ops/bounds.h"
#include "tests/ops/op_test.h"
#include "tests/ops/synthetic.h"
#include "tests/ref/experts.h"
#include "tests/ref/linear.h"

namespace lily::ops {
namespace {

using norm_router = OpTest;
using router_top_k = OpTest;
using expert_group = OpTest;

/// The 35B router has 256 experts; the other ops of the large shape make do with fewer.
ModelShape router_shape(const OpParam& param) {
  ModelShape shape = param.shape();
  if (param.name == ShapeName::kLarge) shape.experts = 256;
  return shape;
}

TEST_P(norm_router, NormsAndGivesFloatLogits) {
  const ModelShape shape = router_shape(GetParam());
  const uint32_t rows = GetParam().rows(130, 17);
  const QuantStore router("router", {.rows = shape.experts, .cols = shape.hidden, .bits = 8}, 41);
  const QuantStore shared("shared_expert_gate", {.rows = 1, .cols = shape.hidden, .bits = 8}, 42);
  const std::vector<const QuantTensor*> parts{&router.tensor(), &shared.tensor()};
  const PlainStore gain("norm", {shape.hidden}, PlainTensor::Dtype::kBf16, random_gain(shape.hidden, 43));
  Values x = random_activations(size_t{rows} * shape.hidden, 2.0, activation(), 44);
  add_awkward_rows(x, shape.hidden, activation());
  Expected normed{ref::rms_norm(x, ref::plain_values(gain.tensor()), eps()), {}};
  Values stored = normed.value;
  ref::round_all(stored, rounding());
  Values slack;
  for (const double value : normed.value) {
    normed.bound.push_back(kFloatSlack * std::abs(value));
    slack.push_back(edge_slack(value, normed.bound.back(), activation()));
  }
  store_rounded(normed, activation());
  RowOp op{.shape = shape, .activation = activation(), .rows = rows};
  op.inputs = {{.name = "residual", .width = shape.hidden, .values = x}};
  op.outputs = {{.name = "normed", .width = shape.hidden, .expected = normed},
                {.name = "logits",
                 .type = ElementType::kF32,
                 .width = size_t{shape.experts} + 1,
                 .expected = bounded_linear(ref::Matrix(parts), stored, slack, activation())}};
  op.build = [&](OpRig& rig) {
    rig.add(NormRouter{.residual = rig.buffer("residual"),
                       .gain = rig.plain(gain.tensor()),
                       .router = rig.stack(parts),
                       .normed = rig.buffer("normed"),
                       .logits = rig.buffer("logits")});
  };
  check_row_op(op);
}

/// Random logits with ties at the edge of the chosen and inside it.
Values router_logits(const ModelShape& shape, uint32_t rows) {
  const size_t width = size_t{shape.experts} + 1;
  Values logits = random_values(rows * width, 3.0, 45);
  const uint32_t chosen = shape.experts_per_token;
  for (uint32_t r = 0; r < rows; r += 3) {
    const auto row = ref::row_of(logits, r, width);
    const ref::Routing routing = ref::router_top_k(Values(row.begin(), row.end()), shape.experts, chosen);
    const double last = row[routing.experts[chosen - 1]];
    row[(routing.experts[0] + 5 + r) % shape.experts] = last;
    row[(routing.experts[0] + 1 + r) % shape.experts] = last;
  }
  std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(width), shape.experts, 0.25);  // all equal in row 1
  return logits;
}

RowOp top_k_op(const ModelShape& shape, ActivationType type, uint32_t rows) {
  const uint32_t chosen = shape.experts_per_token;
  const Values logits = router_logits(shape, rows);
  const ref::Routing routing = ref::router_top_k(logits, shape.experts, chosen);
  Expected scores{routing.scores, {}};
  for (const double score : scores.value) scores.bound.push_back(kFloatSlack * score);
  RowOp op{.shape = shape, .activation = type, .rows = rows};
  op.inputs = {{.name = "logits", .type = ElementType::kF32, .width = size_t{shape.experts} + 1, .values = logits}};
  op.outputs = {
      {.name = "experts",
       .type = ElementType::kU32,
       .width = chosen,
       .expected = {Values(routing.experts.begin(), routing.experts.end()), Values(routing.experts.size(), 0.0)}},
      {.name = "scores", .type = ElementType::kF32, .width = size_t{chosen} + 1, .expected = scores}};
  op.build = [](OpRig& rig) {
    rig.add(
        RouterTopK{.logits = rig.buffer("logits"), .experts = rig.buffer("experts"), .scores = rig.buffer("scores")});
  };
  return op;
}

TEST_P(router_top_k, PicksByLogitThenByLowerExpert) {
  check_row_op(top_k_op(router_shape(GetParam()), activation(), 130));
}

TEST_P(router_top_k, NamesDifferentExpertsEvenForANanRow) {
  // What it picks is of no account, but later ops index weights with it.
  const ModelShape shape = router_shape(GetParam());
  const uint32_t chosen = shape.experts_per_token;
  for (const BackendCase& each : op_backends()) {
    StateSizes sizes = op_sizes();
    PlanOptions options;
    options.max_rows = 3;
    options.max_context = kKvBlockTokens;
    options.activation = activation();
    OpRig rig(*each.backend, shape, sizes, options);
    const Ref logits = rig.buffer("logits", ElementType::kF32, uint64_t{3} * (shape.experts + 1));
    const Ref experts = rig.buffer("experts", ElementType::kU32, uint64_t{3} * chosen);
    const Ref scores = rig.buffer("scores", ElementType::kF32, uint64_t{3} * (chosen + 1));
    rig.add(RouterTopK{.logits = logits, .experts = experts, .scores = scores});
    rig.compile();  // every logit is NaN
    Values some(shape.experts + 1, -std::numeric_limits<double>::infinity());
    some[1] = std::numeric_limits<double>::quiet_NaN();
    some[2] = std::numeric_limits<double>::infinity();
    rig.write("logits", some, shape.experts + 1);
    rig.run(one_run(3));
    for (uint32_t row = 0; row < 3; ++row) {
      Values picked = rig.read_values("experts", uint64_t{row} * chosen, chosen);
      std::ranges::sort(picked);
      EXPECT_LT(picked.back(), shape.experts) << each.label << " row " << row;
      EXPECT_EQ(std::ranges::adjacent_find(picked), picked.end()) << each.label << " row " << row;
    }
  }
}

TEST_P(expert_group, ListsPairsOfEveryExpertInOrder) {
  const ModelShape shape = router_shape(GetParam());
  const uint32_t chosen = shape.experts_per_token;
  constexpr uint32_t kRows = 130;
  const ref::Routing routing =
      ref::router_top_k(random_values(size_t{kRows} * (shape.experts + 1), 1.0, 46), shape.experts, chosen);
  for (const BackendCase& each : op_backends()) {
    StateSizes sizes = op_sizes();
    PlanOptions options;
    options.mode = PlanMode::kPrefill;
    options.max_rows = kRows;
    options.max_context = 4 * kKvBlockTokens;
    options.activation = activation();
    OpRig rig(*each.backend, shape, sizes, options);
    const uint64_t pairs = uint64_t{kRows} * chosen;
    const Ref experts = rig.buffer("experts", ElementType::kU32, pairs);
    const Ref groups = rig.buffer("groups", ElementType::kU32, shape.experts + 1 + pairs);
    rig.add(ExpertGroup{.experts = experts, .groups = groups});
    rig.compile();
    for (const uint32_t rows : edge_row_counts(kRows)) {
      const std::vector<uint32_t> part(routing.experts.begin(),
                                       routing.experts.begin() + static_cast<std::ptrdiff_t>(size_t{rows} * chosen));
      rig.poison("groups");
      rig.write("experts", Values(part.begin(), part.end()));
      rig.run(one_run(rows));
      const std::vector<uint32_t> expected = ref::expert_group(part, shape.experts);
      EXPECT_EQ(rig.read_values("groups", 0, expected.size()), Values(expected.begin(), expected.end()))
          << each.label << ", " << rows << " rows";
    }
  }
}

LILY_OP_SUITE(norm_router);
LILY_OP_SUITE(router_top_k);
LILY_OP_SUITE(expert_group);

}  // namespace
}  // namespace lily::ops
