// The reference of sample on small vocabularies.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/ref/sampling.h"

namespace lily::ref {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

SampleParams params_for(uint32_t vocabulary, float temperature) {
  SampleParams params;
  params.vocabulary = vocabulary;
  params.temperature = temperature;
  return params;
}

TEST(Sampling, PresenceAndFrequencyCountGeneratedTokensOnly) {
  SampleParams params = params_for(3, 0.0F);
  params.presence_penalty = 1.5F;
  params.frequency_penalty = 0.5F;
  const std::vector<float> logits{2.0F, 1.0F, 0.0F};
  const std::vector<uint32_t> counts{2, kPromptBit, 0};
  EXPECT_EQ(penalised_logits(logits, params, counts), (Values{-0.5, 1.0, 0.0}));
  EXPECT_EQ(token_distribution(logits, params, counts), (Values{0.0, 1.0, 0.0}));
}

TEST(Sampling, RepetitionCountsThePromptToo) {
  SampleParams params = params_for(4, 0.0F);
  params.repetition_penalty = 2.0F;
  const std::vector<float> logits{2.0F, 1.0F, -1.0F, 3.0F};
  const std::vector<uint32_t> counts{1, kPromptBit, kPromptBit | 3U, 0};
  EXPECT_EQ(penalised_logits(logits, params, counts), (Values{1.0, 0.5, -2.0, 3.0}));
}

TEST(Sampling, BiasMaskBannedAndPaddingComeFirst) {
  SampleParams params = params_for(4, 0.0F);
  params.bias = {{1, 10.0F}, {3, 1.0F}};
  params.banned = {1};
  const uint32_t mask = 0b111110U;
  params.mask = &mask;
  const std::vector<float> logits{9.0F, 1.0F, 2.0F, 2.0F, 50.0F, 50.0F};
  EXPECT_EQ(penalised_logits(logits, params, {}), (Values{kNever, kNever, 2.0, 3.0, kNever, kNever}));
}

TEST(Sampling, TopKKeepsTheLowerIdAtTheBoundary) {
  SampleParams params = params_for(4, 1.0F);
  params.top_k = 2;
  const Values left = token_distribution(std::vector<float>{1.0F, 2.0F, 1.0F, 1.0F}, params, {});
  EXPECT_GT(left[0], 0.0);
  EXPECT_EQ(left[2], 0.0);
  EXPECT_DOUBLE_EQ(left[1] / left[0], std::exp(1.0));
}

TEST(Sampling, TopPKeepsTheSmallestSetThatReachesIt) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  SampleParams params = params_for(3, 1.0F);
  params.top_p = 0.7F;
  EXPECT_EQ(token_distribution(logits, params, {})[2], 0.0);
  params.top_p = 0.85F;
  EXPECT_GT(token_distribution(logits, params, {})[2], 0.0);
  params.top_p = 0.0F;
  EXPECT_EQ(token_distribution(logits, params, {}), (Values{1.0, 0.0, 0.0}));
}

TEST(Sampling, MinPIsRelativeToTheLargest) {
  const std::vector<float> logits{std::log(0.6F), std::log(0.3F), std::log(0.1F)};
  SampleParams params = params_for(3, 1.0F);
  params.min_p = 0.4F;
  const Values left = token_distribution(logits, params, {});
  EXPECT_NEAR(left[0], 2.0 / 3.0, 1e-6);
  EXPECT_EQ(left[2], 0.0);
}

TEST(Sampling, LogProbabilitiesSumToOneAndArgmaxTakesTheLowerId) {
  const Values log = log_probabilities(std::vector<float>{1.0F, 4.0F, 4.0F});
  EXPECT_NEAR(std::exp(log[0]) + std::exp(log[1]) + std::exp(log[2]), 1.0, 1e-12);
  EXPECT_EQ(argmax(log), 1);
  EXPECT_EQ(argmax({kNever, kNever}), -1);
  EXPECT_EQ(largest(log, 2), (std::vector<uint32_t>{1, 2}));
}

}  // namespace
}  // namespace lily::ref
