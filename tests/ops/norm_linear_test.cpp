// norm_linear: the input projections of both mixers, stacks of parts of different height and width.
#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "tests/ops/bounds.h"
#include "tests/ops/op_test.h"
#include "tests/ops/synthetic.h"
#include "tests/ref/linear.h"

namespace lily::ops {
namespace {

using Parts = std::vector<std::pair<uint32_t, uint32_t>>;  // rows and bits of each

/// How far round(rmsnorm(x) · gain) of a backend may lie from the reference's.
Values norm_slack(const Values& exact, ActivationType type) {
  Values slack(exact.size());
  for (size_t i = 0; i < exact.size(); ++i) slack[i] = edge_slack(exact[i], kFloatSlack * std::abs(exact[i]), type);
  return slack;
}

void check_norm_linear(const OpParam& param, const Parts& heights, uint32_t rows, bool shifted_gain) {
  const ModelShape shape = param.shape();
  const auto eps = static_cast<double>(shape.rms_eps);
  std::deque<QuantStore> stores;
  std::vector<const QuantTensor*> parts;
  uint32_t width = 0;
  for (const auto& [height, bits] : heights) {
    stores.emplace_back("part", QuantDims{.rows = height, .cols = shape.hidden, .bits = bits}, 100 + width);
    parts.push_back(&stores.back().tensor());
    width += height;
  }
  Values gain_values = random_gain(shape.hidden, 2);
  if (shifted_gain) {
    for (double& value : gain_values) value -= 1.0;
  }
  PlainStore gain("gain", {shape.hidden}, PlainTensor::Dtype::kBf16, gain_values);
  if (shifted_gain) gain.shift_by_one();
  Values x = random_activations(size_t{rows} * shape.hidden, 2.0, param.activation, 3);
  add_awkward_rows(x, shape.hidden, param.activation);
  const Values exact = ref::rms_norm(x, ref::plain_values(gain.tensor()), eps);
  Values normed = exact;
  ref::round_all(normed, rounding_of(param.activation));
  Expected expected = bounded_linear(ref::Matrix(parts), normed, norm_slack(exact, param.activation), param.activation);
  store_rounded(expected, param.activation);
  RowOp op{.shape = shape, .activation = param.activation, .rows = rows};
  op.inputs = {{.name = "x", .width = shape.hidden, .values = x}};
  op.outputs = {{.name = "out", .width = width, .expected = expected}};
  op.build = [&](OpRig& rig) {
    rig.add(NormLinear{
        .x = rig.buffer("x"), .gain = rig.plain(gain.tensor()), .weight = rig.stack(parts), .out = rig.buffer("out")});
  };
  check_row_op(op);
}

using norm_linear = OpTest;

TEST_P(norm_linear, ProjectsForGatedDeltaNet) {
  const ModelShape shape = OpTest::shape();
  // Four-bit matrices with eight-bit a and b below them, as mixed checkpoints have.
  check_norm_linear(
      GetParam(), {{shape.conv_channels(), 4}, {shape.value_dim(), 4}, {shape.value_heads, 8}, {shape.value_heads, 8}},
      GetParam().rows(130, 5), false);
}

TEST_P(norm_linear, ProjectsForAttention) {
  const ModelShape shape = OpTest::shape();
  check_norm_linear(GetParam(), {{2 * shape.query_dim(), 4}, {shape.kv_dim(), 8}, {shape.kv_dim(), 4}},
                    GetParam().rows(17, 4), true);
}

TEST_P(norm_linear, TakesAnyHeight) {
  check_norm_linear(GetParam(), {{1, 8}, {7, 4}, {33, 4}, {2, 8}}, GetParam().rows(66, 17), false);
}

LILY_OP_SUITE(norm_linear);

}  // namespace
}  // namespace lily::ops
