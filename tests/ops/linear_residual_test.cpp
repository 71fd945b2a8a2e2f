// linear_residual: the output projections of both mixers, added to the residual stream in place.
#include <gtest/gtest.h>

#include "tests/ops/bounds.h"
#include "tests/ops/op_test.h"
#include "tests/ops/synthetic.h"

namespace lily::ops {
namespace {

void check_linear_residual(const OpParam& param, uint32_t cols, uint32_t bits, uint32_t rows) {
  const ModelShape shape = param.shape();
  const QuantStore weight("out_proj", {.rows = shape.hidden, .cols = cols, .bits = bits}, 11);
  Values x = random_activations(size_t{rows} * cols, 0.7, param.activation, 12);
  add_awkward_rows(x, cols, param.activation);
  const Values residual = random_activations(size_t{rows} * shape.hidden, 1.0, param.activation, 13);
  Expected expected = bounded_linear(ref::Matrix(weight.tensor()), x, {}, param.activation);
  for (size_t i = 0; i < residual.size(); ++i) expected.value[i] += residual[i];
  store_rounded(expected, param.activation);
  RowOp op{.shape = shape, .activation = param.activation, .rows = rows};
  op.inputs = {{.name = "x", .width = cols, .values = x},
               {.name = "residual", .width = shape.hidden, .values = residual}};
  op.outputs = {{.name = "residual", .width = shape.hidden, .expected = expected}};
  op.build = [&](OpRig& rig) {
    rig.add(LinearResidual{
        .weight = rig.stack({&weight.tensor()}), .x = rig.buffer("x"), .residual = rig.buffer("residual")});
  };
  check_row_op(op);
}

using linear_residual = OpTest;

TEST_P(linear_residual, AddsTheDeltaNetOutput) {
  check_linear_residual(GetParam(), shape().value_dim(), 4, GetParam().rows(130, 9));
}
TEST_P(linear_residual, AddsTheAttentionOutput) {
  check_linear_residual(GetParam(), shape().query_dim(), 4, GetParam().rows(33, 17));
}
TEST_P(linear_residual, TakesEightBits) {
  check_linear_residual(GetParam(), shape().query_dim(), 8, GetParam().rows(65, 5));
}
TEST_P(linear_residual, TakesOneGroupOfColumns) {
  check_linear_residual(GetParam(), 64, 4, 17);
}

LILY_OP_SUITE(linear_residual);

}  // namespace
}  // namespace lily::ops
