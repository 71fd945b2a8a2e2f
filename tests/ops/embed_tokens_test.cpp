// embed_tokens and capture_hidden: rows that are copied, from the table by id or mailbox slot, and of the residual.
#include <gtest/gtest.h>

#include <random>

#include "tests/ops/backends.h"
#include "tests/ops/bounds.h"
#include "tests/ops/op_test.h"
#include "tests/ops/synthetic.h"
#include "tests/ref/linear.h"

namespace lily::ops {
namespace {

using embed_tokens = OpTest;
using capture_hidden = OpTest;

void check_embed(const OpParam& param, uint32_t bits) {
  const ModelShape shape = param.shape();
  constexpr uint32_t kRows = 33;
  const QuantStore table("embed_tokens", {.rows = shape.vocab, .cols = shape.hidden, .bits = bits}, 21);
  std::mt19937 random(22);
  std::vector<int32_t> tokens(kRows);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % shape.vocab);
  tokens[1] = 0;
  tokens[2] = static_cast<int32_t>(shape.vocab - 1);
  Expected expected{ref::embed_tokens(ref::Matrix(table.tensor()), tokens, ref::Rounding::kNone), {}};
  // code · scale + bias in float, codes and biases cancel: the error follows their size, not the result's.
  expected.bound.assign(expected.value.size(), 4 * 0x1p-23 / std::sqrt(static_cast<double>(shape.hidden)));
  store_rounded(expected, param.activation);
  RowOp op{.shape = shape, .activation = param.activation, .rows = kRows};
  op.outputs = {{.name = "out", .width = shape.hidden, .expected = expected}};
  op.build = [&](OpRig& rig) {
    rig.add(EmbedTokens{.table = rig.stack({&table.tensor()}),
                        .mailbox = rig.buffer("mailbox", ElementType::kU32, 1),
                        .out = rig.buffer("out")});
  };
  op.step = [&](uint32_t first, uint32_t count) {
    Step step = one_run(count);
    step.tokens.assign(tokens.begin() + first, tokens.begin() + first + count);
    return step;
  };
  check_row_op(op);
}

TEST_P(embed_tokens, ReadsRowsOfTheTable) {
  check_embed(GetParam(), 4);
}

TEST_P(embed_tokens, TakesEightBits) {
  check_embed(GetParam(), 8);
}

TEST_P(embed_tokens, ReadsTokensThatSamplingLeftInTheMailbox) {
  const QuantStore table("embed_tokens", {.rows = shape().vocab, .cols = shape().hidden}, 23);
  const uint32_t width = shape().hidden;
  for (const BackendCase& each : op_backends()) {
    StateSizes sizes = op_sizes();
    sizes.sequences = 3;
    PlanOptions options;
    options.max_rows = 4;
    options.max_context = kKvBlockTokens;
    options.activation = activation();
    OpRig rig(*each.backend, shape(), sizes, options);
    rig.add(EmbedTokens{.table = rig.stack({&table.tensor()}),
                        .mailbox = rig.buffer("mailbox", ElementType::kU32, 3),
                        .out = rig.buffer("out", ElementType::kActivation, size_t{4} * width)});
    rig.compile();
    rig.write("mailbox", {7, 300, 0});
    Step step;
    for (uint32_t row = 0; row < 4; ++row) {
      step.runs.push_back(
          {.sequence = row % 3, .first_position = 5 + row / 3, .first_row = row, .rows = 1, .snapshots = {}});
    }
    step.tokens = {-2, -1, 300, 7};
    rig.run(step);
    const Bytes by_mailbox = rig.read("out", 0, size_t{2} * width);
    EXPECT_EQ(by_mailbox, rig.read("out", size_t{2} * width, size_t{2} * width)) << each.label;
  }
}

TEST_P(capture_hidden, CopiesTheRows) {
  const uint32_t rows = GetParam().rows(130, 17);
  const Values residual = random_activations(size_t{rows} * shape().hidden, 1.0, activation(), 24);
  RowOp op{.shape = shape(), .activation = activation(), .rows = rows};
  op.inputs = {{.name = "residual", .width = shape().hidden, .values = residual}};
  op.outputs = {{.name = "out", .width = shape().hidden, .expected = {residual, Values(residual.size(), 0.0)}}};
  op.build = [](OpRig& rig) { rig.add(CaptureHidden{.residual = rig.buffer("residual"), .out = rig.buffer("out")}); };
  check_row_op(op);
}

LILY_OP_SUITE(embed_tokens);
LILY_OP_SUITE(capture_hidden);

}  // namespace
}  // namespace lily::ops
