// sample, all but the distribution of draws: argmax, what is never drawn, penalties, counts, mailbox,
// log-probabilities, broken rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ops/backends.h"
#include "tests/ops/sample_rig.h"
#include "tests/ops/shapes.h"
#include "tests/ref/sampling.h"

namespace lily::ops {
namespace {

/// Runs over every backend; the demo vocabulary, so that several vector widths and tails are crossed.
class SampleTest : public testing::Test {
 protected:
  template <typename Check>
  static void on_every_backend(uint32_t rows, const Check& check) {
    for (const BackendCase& each : op_backends()) {
      SCOPED_TRACE(each.label);
      SampleRig rig(*each.backend, demo_shape(), rows);
      check(rig);
    }
  }
  static SampleParams params(float temperature, uint32_t row = 0) {
    return sample_params(demo_shape(), temperature, row);
  }
  static std::vector<float> logits(uint32_t seed) { return random_logits(demo_shape().vocab, 2.0, seed); }
};

using sample = SampleTest;

TEST_F(sample, ArgmaxTiesGoToTheLowerId) {
  on_every_backend(1, [](SampleRig& rig) {
    const uint32_t vocab = demo_shape().vocab;
    for (const auto& [low, high] :
         {std::pair{0U, 1U}, std::pair{15U, 16U}, std::pair{17U, vocab - 1}, std::pair{100U, 1000U}}) {
      std::vector<float> row(vocab, -1.0F);
      row[low] = row[high] = 3.0F;
      rig.write_logits(0, row);
      EXPECT_EQ(rig.run({params(0.0F)})[0].token, static_cast<int32_t>(low));
      EXPECT_EQ(rig.mailbox(0), static_cast<int32_t>(low));
    }
  });
}

TEST_F(sample, ArgmaxAgreesWithTheReferenceThroughEveryStage) {
  const std::vector<float> row = logits(201);
  const uint32_t vocab = demo_shape().vocab;
  std::vector<uint32_t> counts(vocab, 0);
  const std::vector<uint32_t> best = ref::largest(Values(row.begin(), row.end()), 40);
  for (size_t i = 0; i < best.size(); ++i)
    counts[best[i]] = (i % 3 == 0 ? ref::kPromptBit : 0) + static_cast<uint32_t>(i % 4);
  std::vector<uint32_t> mask(vocab / 32, 0x77777777U);
  std::vector<SampleParams> cases(7, params(0.0F));
  cases[0].banned = {best[0], best[1]};
  cases[1].bias = {{best[7], 10.0F}, {best[0], -1.0F}};
  cases[2].mask = mask.data();
  cases[3].vocabulary = *std::min_element(best.begin(), best.begin() + 4) + 1;
  cases[4].repetition_penalty = 1.7F;
  cases[5].presence_penalty = 2.0F;
  cases[5].frequency_penalty = -1.5F;
  cases[6].repetition_penalty = 1.3F;
  cases[6].frequency_penalty = 0.4F;
  cases[6].bias = {{best[3], 1.5F}};
  cases[6].banned = {best[2]};
  cases[6].mask = mask.data();
  on_every_backend(1, [&](SampleRig& rig) {
    rig.write_logits(0, row);
    for (size_t i = 0; i < cases.size(); ++i) {
      rig.write_counts(0, counts);
      EXPECT_EQ(rig.run({cases[i]})[0].token, ref::argmax(ref::penalised_logits(row, cases[i], counts)))
          << "case " << i;
    }
  });
}

TEST_F(sample, PenaltiesCountGeneratedTokensOnly) {
  // logits [2, 1, 0, …], generated [0, 0], prompt [1], presence 1.5, frequency 0.5: token 0 falls to -0.5, 1 stays.
  std::vector<float> row(demo_shape().vocab, -9.0F);
  row[0] = 2.0F;
  row[1] = 1.0F;
  row[2] = 0.0F;
  row[3] = -0.25F;
  std::vector<uint32_t> counts(row.size(), 0);
  counts[0] = 2;
  counts[1] = ref::kPromptBit;
  SampleParams penalised = params(0.0F);
  penalised.presence_penalty = 1.5F;
  penalised.frequency_penalty = 0.5F;
  on_every_backend(1, [&](SampleRig& rig) {
    rig.write_logits(0, row);
    rig.write_counts(0, counts);
    EXPECT_EQ(rig.run({penalised})[0].token, 1);
    SampleParams rest = penalised;
    rest.banned = {1, 2};
    rig.write_counts(0, counts);
    EXPECT_EQ(rig.run({rest})[0].token, 3) << "0 lies at -0.5, below -0.25";
    rest.banned = {1, 2, 3};
    rig.write_counts(0, counts);
    EXPECT_EQ(rig.run({rest})[0].token, 0) << "0 lies at -0.5, above the rest";
  });
}

TEST_F(sample, CountsEveryDrawnToken) {
  std::vector<float> row(demo_shape().vocab, -9.0F);
  row[4] = 1.0F;
  row[9] = 0.75F;
  SampleParams penalised = params(0.0F);
  penalised.frequency_penalty = 0.5F;
  on_every_backend(1, [&](SampleRig& rig) {
    rig.write_logits(0, row);
    std::vector<uint32_t> expected(row.size(), 0);
    expected[9] = ref::kPromptBit;
    rig.write_counts(0, expected);
    for (const int32_t token : {4, 9, 4, 9, 4}) {
      EXPECT_EQ(rig.run({penalised})[0].token, token);
      ++expected[static_cast<size_t>(token)];
    }
    EXPECT_EQ(rig.counts(0), expected);
  });
}

TEST_F(sample, ReportsLogProbabilitiesOfTheRawLogits) {
  const std::vector<float> row = logits(202);
  SampleParams asked = params(0.0F);
  asked.vocabulary = demo_shape().vocab - 37;
  asked.want_logprob = true;
  const Values expected = ref::log_probabilities(std::span(row).first(asked.vocabulary));
  const std::vector<uint32_t> best = ref::largest(expected, kMaxTopLogprobs);
  on_every_backend(1, [&](SampleRig& rig) {
    rig.write_logits(0, row);
    for (const uint32_t alternatives : {0U, 1U, 5U, kMaxTopLogprobs}) {
      SampleParams changed = asked;
      changed.top_logprobs = alternatives;
      changed.temperature = 0.5F;
      changed.top_k = 1;
      changed.bias = {{best[2], 20.0F}};  // what is drawn and what is reported differ
      const SampleResult result = rig.run({changed})[0];
      ASSERT_EQ(result.token, static_cast<int32_t>(best[2]));
      EXPECT_NEAR(static_cast<double>(result.logprob), expected[best[2]], 1e-5);
      ASSERT_EQ(result.top_count, alternatives);
      for (uint32_t i = 0; i < alternatives; ++i) {
        EXPECT_EQ(result.top_ids[i], best[i]) << i;
        EXPECT_NEAR(static_cast<double>(result.top_logprobs[i]), expected[best[i]], 1e-5) << i;
      }
    }
  });
}

TEST_F(sample, LogProbabilitiesIgnoreLargePadding) {
  std::vector<float> row = logits(203);
  SampleParams asked = params(0.0F);
  asked.vocabulary = demo_shape().vocab - 37;
  asked.want_logprob = true;
  std::fill(row.begin() + asked.vocabulary, row.end(), 200.0F);
  const Values expected = ref::log_probabilities(std::span(row).first(asked.vocabulary));
  on_every_backend(1, [&](SampleRig& rig) {
    rig.write_logits(0, row);
    const SampleResult result = rig.run({asked})[0];
    ASSERT_EQ(result.token, ref::argmax(expected));
    EXPECT_NEAR(static_cast<double>(result.logprob), expected[static_cast<size_t>(result.token)], 1e-5);
  });
}

TEST_F(sample, ANonFiniteRowDrawsNothingAndOthersGoOn) {
  const uint32_t vocab = demo_shape().vocab;
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<uint32_t, float>> broken{
      {0, nan}, {17, nan}, {vocab - 1, nan}, {31, infinity}, {vocab - 1, -infinity}};
  const auto rows = static_cast<uint32_t>(2 * broken.size() + 1);
  on_every_backend(rows, [&](SampleRig& rig) {
    std::vector<SampleParams> samples;
    for (uint32_t row = 0; row < rows; ++row) {
      std::vector<float> values = logits(210 + row);
      if (row % 2 == 1) values[broken[row / 2].first] = broken[row / 2].second;
      rig.write_logits(row, values);
      samples.push_back(params(row % 4 < 2 ? 0.0F : 1.0F, row));
    }
    const std::vector<SampleResult> results = rig.run(samples);
    for (uint32_t row = 0; row < rows; ++row) {
      if (row % 2 == 1) {
        EXPECT_EQ(results[row].non_finite, 1U) << row;
        EXPECT_EQ(results[row].token, -1) << row;
        EXPECT_LT(static_cast<uint32_t>(rig.mailbox(row)), vocab) << "a step in flight reads it: row " << row;
      } else {
        EXPECT_EQ(results[row].non_finite, 0U) << row;
        EXPECT_EQ(results[row].token, rig.run({samples[row]})[0].token) << row;
      }
    }
  });
}

TEST_F(sample, WritesTheRingAndTheSlotItIsGiven) {
  on_every_backend(3, [](SampleRig& rig) {
    const uint32_t vocab = demo_shape().vocab;
    for (uint32_t row = 0; row < 3; ++row) {
      std::vector<float> values(vocab, 0.0F);
      values[100 + row] = 1.0F;
      rig.write_logits(row, values);
    }
    // Samples out of order: logit row 2 goes to slot 0, row 0 to slot 2.
    SampleParams first = params(0.0F, 2);
    first.sequence = 0;
    SampleParams second = params(0.0F, 0);
    second.sequence = 2;
    const std::vector<SampleResult> results = rig.run({first, second}, 1);
    EXPECT_EQ(results[0].token, 102);
    EXPECT_EQ(results[1].token, 100);
    EXPECT_EQ(rig.mailbox(0), 102);
    EXPECT_EQ(rig.mailbox(2), 100);
    EXPECT_EQ(rig.mailbox(1), -1) << "left as poisoned";
    for (const uint32_t other : {0U, 2U}) {
      EXPECT_EQ(rig.results(other, 1)[0].non_finite, UINT32_MAX) << "ring " << other << " left as poisoned";
    }
  });
}

TEST_F(sample, ExtremeParametersStillDrawAnAllowedToken) {
  const std::vector<float> row = logits(204);
  const int32_t best = ref::argmax(Values(row.begin(), row.end()));
  std::vector<SampleParams> cases(5, params(1.0F));
  cases[0].temperature = 1e-6F;
  cases[1].top_p = 0.0F;
  cases[2].min_p = 1.0F;
  cases[3].top_k = 1;
  cases[4].temperature = 1e-30F;
  on_every_backend(1, [&](SampleRig& rig) {
    rig.write_logits(0, row);
    for (size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(rig.run({cases[i]})[0].token, best) << "case " << i;
    SampleParams wide = params(1e6F);
    wide.top_k = UINT32_MAX;
    const int32_t any = rig.run({wide})[0].token;
    EXPECT_GE(any, 0);
    EXPECT_LT(any, static_cast<int32_t>(row.size()));
  });
}

}  // namespace
}  // namespace lily::ops
