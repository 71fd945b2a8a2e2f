// final_norm and lm_head: the rows that need logits, and the head over them.
#include <gtest/gtest.h>

#include "tests/ops/backends.h"
#include "tests/ops/bounds.h"
#include "tests/ops/op_test.h"
#include "tests/ops/synthetic.h"
#include "tests/ref/linear.h"

namespace lily::ops {
namespace {

using final_norm = OpTest;
using lm_head = OpTest;

Expected expected_norm(const Values& x, const PlainStore& gain, double eps, ActivationType type) {
  Expected expected{ref::rms_norm(x, ref::plain_values(gain.tensor()), eps), {}};
  for (const double value : expected.value) expected.bound.push_back(kFloatSlack * std::abs(value));
  store_rounded(expected, type);
  return expected;
}

TEST_P(final_norm, NormsEveryRow) {
  const uint32_t rows = GetParam().rows(130, 17);
  const PlainStore gain("norm", {shape().hidden}, PlainTensor::Dtype::kBf16, random_gain(shape().hidden, 31));
  Values x = random_activations(size_t{rows} * shape().hidden, 3.0, activation(), 32);
  add_awkward_rows(x, shape().hidden, activation());
  RowOp op{.shape = shape(), .activation = activation(), .rows = rows};
  op.inputs = {{.name = "residual", .width = shape().hidden, .values = x}};
  op.outputs = {{.name = "out", .width = shape().hidden, .expected = expected_norm(x, gain, eps(), activation())}};
  op.build = [&](OpRig& rig) {
    rig.add(FinalNorm{.residual = rig.buffer("residual"), .gain = rig.plain(gain.tensor()), .out = rig.buffer("out")});
  };
  check_row_op(op);
}

TEST_P(final_norm, PicksTheLastRowsOfEachRun) {
  const uint32_t width = shape().hidden;
  constexpr uint32_t kRows = 12;
  const PlainStore gain("norm", {width}, PlainTensor::Dtype::kF32, random_gain(width, 33));
  const Values x = random_activations(size_t{kRows} * width, 3.0, activation(), 34);
  const Expected expected = expected_norm(x, gain, eps(), activation());
  const std::vector<uint32_t> picked{4, 6, 7, 8, 11};
  for (const BackendCase& each : op_backends()) {
    StateSizes sizes = op_sizes();
    sizes.sequences = 4;
    sizes.max_logit_rows = 8;
    PlanOptions options;
    options.max_rows = kRows;
    options.max_context = kKvBlockTokens;
    options.activation = activation();
    OpRig rig(*each.backend, shape(), sizes, options);
    const Ref residual = rig.buffer("residual", ElementType::kActivation, size_t{kRows} * width);
    const Ref out = rig.buffer("out", ElementType::kActivation, size_t{8} * width);
    rig.add(FinalNorm{.residual = residual, .gain = rig.plain(gain.tensor()), .out = out});
    rig.compile();
    rig.write("residual", x);
    Step step;
    step.tokens.assign(kRows, 0);
    step.runs = {{.sequence = 0, .first_row = 0, .rows = 5, .logit_rows = 1, .snapshots = {}},
                 {.sequence = 1, .first_row = 5, .rows = 4, .logit_rows = 3, .snapshots = {}},
                 {.sequence = 2, .first_row = 9, .rows = 2, .logit_rows = 0, .snapshots = {}},
                 {.sequence = 3, .first_row = 11, .rows = 1, .logit_rows = 1, .snapshots = {}}};
    rig.run(step);
    for (size_t i = 0; i < picked.size(); ++i) {
      expect_close(rig.read_values("out", i * width, width), expected, picked[i], width,
                   each.label + ", logit row " + std::to_string(i));
    }
  }
}

void check_lm_head(const OpParam& param, uint32_t bits, uint32_t rows) {
  const ModelShape shape = param.shape();
  const QuantStore weight("lm_head", {.rows = shape.vocab, .cols = shape.hidden, .bits = bits}, 35);
  Values x = random_activations(size_t{rows} * shape.hidden, 1.5, param.activation, 36);
  add_awkward_rows(x, shape.hidden, param.activation);
  RowOp op{.shape = shape, .activation = param.activation, .rows = rows};
  op.inputs = {{.name = "x", .width = shape.hidden, .values = x}};
  op.outputs = {{.name = "logits",
                 .type = ElementType::kF32,
                 .width = shape.vocab,
                 .expected = bounded_linear(ref::Matrix(weight.tensor()), x, {}, param.activation)}};
  op.build = [&](OpRig& rig) {
    rig.add(LmHead{.weight = rig.stack({&weight.tensor()}), .x = rig.buffer("x"), .logits = rig.buffer("logits")});
  };
  check_row_op(op);
}

TEST_P(lm_head, GivesFloatLogits) {
  check_lm_head(GetParam(), 4, GetParam().rows(17, 9));
}
TEST_P(lm_head, TakesEightBits) {
  check_lm_head(GetParam(), 8, 5);
}

LILY_OP_SUITE(final_norm);
LILY_OP_SUITE(lm_head);

}  // namespace
}  // namespace lily::ops
