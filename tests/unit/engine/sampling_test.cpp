#include "engine/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace lily {
namespace {

constexpr uint32_t kVocabulary = 100;

TEST(Sampling, IsNeutralWhenNothingIsSaid) {
  const SampleParams params = resolve_sampling({}, {}, kVocabulary).value();
  EXPECT_EQ(params.temperature, 1.0F);
  EXPECT_EQ(params.top_k, 0U);
  EXPECT_EQ(params.top_p, 1.0F);
  EXPECT_EQ(params.min_p, 0.0F);
  EXPECT_FALSE(params.counts_tokens());
  EXPECT_EQ(params.vocabulary, kVocabulary);
}

TEST(Sampling, TakesDefaultsFromTheModelAndTheRequestWins) {
  GenerationDefaults file;
  file.do_sample = true;
  file.temperature = 0.6F;
  file.top_k = 20;
  file.top_p = 0.95F;
  const SamplingOptions defaults = default_sampling(file);
  const SampleParams params = resolve_sampling({.top_p = 0.5}, defaults, kVocabulary).value();
  EXPECT_FLOAT_EQ(params.temperature, 0.6F);
  EXPECT_EQ(params.top_k, 20U);
  EXPECT_EQ(params.top_p, 0.5F);
}

TEST(Sampling, IsGreedyWhenTheModelSaysNotToSample) {
  GenerationDefaults file;
  file.do_sample = false;
  file.temperature = 0.6F;
  const SamplingOptions defaults = default_sampling(file);
  EXPECT_EQ(resolve_sampling({}, defaults, kVocabulary).value().temperature, 0.0F);
  EXPECT_EQ(resolve_sampling({.temperature = 0.7}, defaults, kVocabulary).value().temperature, 0.7F);
}

TEST(Sampling, RefusesValuesOutsideTheirRangeAndNamesFieldValueAndRange) {
  struct Case {
    std::string field;
    std::function<void(SamplingOptions&)> set;
    std::string value;
    std::string range;
  };
  const std::vector<Case> cases = {
      {"temperature", [](auto& o) { o.temperature = -1; }, "-1", "0 to 2"},
      {"temperature", [](auto& o) { o.temperature = 2.5; }, "2.5", "0 to 2"},
      {"temperature", [](auto& o) { o.temperature = NAN; }, "nan", "0 to 2"},
      {"top_k", [](auto& o) { o.top_k = -2; }, "-2", "-1 or 0 (off)"},
      {"top_p", [](auto& o) { o.top_p = 1.5; }, "1.5", "0 to 1"},
      {"min_p", [](auto& o) { o.min_p = -0.1; }, "-0.1", "0 to 1"},
      {"presence_penalty", [](auto& o) { o.presence_penalty = 3; }, "3", "-2 to 2"},
      {"frequency_penalty", [](auto& o) { o.frequency_penalty = -2.01; }, "-2.01", "-2 to 2"},
      {"repetition_penalty", [](auto& o) { o.repetition_penalty = 0; }, "0", "0.01 to 10"},
      {"repetition_penalty", [](auto& o) { o.repetition_penalty = INFINITY; }, "inf", "0.01 to 10"},
      {"logit_bias",
       [](auto& o) {
         o.logit_bias = {{3, 101.0}};
       },
       "101", "-100 to 100"},
      {"logit_bias",
       [](auto& o) {
         o.logit_bias = {{100, 1.0}};
       },
       "100", "vocabulary size 100"},
  };
  for (const Case& each : cases) {
    SamplingOptions options;
    each.set(options);
    const auto result = resolve_sampling(options, {}, kVocabulary);
    ASSERT_FALSE(result) << each.field << " " << each.value;
    EXPECT_EQ(result.failure().kind, FailureKind::kInvalid);
    EXPECT_EQ(result.failure().param, each.field);
    for (const std::string& part : {each.field, each.value, each.range}) {
      EXPECT_NE(result.failure().message.find(part), std::string::npos) << result.failure().message;
    }
  }
}

TEST(Sampling, AcceptsTheEndsOfEveryRange) {
  const SamplingOptions low = {.temperature = 0,
                               .top_k = -1,
                               .top_p = 0,
                               .min_p = 0,
                               .presence_penalty = -2,
                               .frequency_penalty = -2,
                               .repetition_penalty = 0.01,
                               .logit_bias = {{0, -99.5}}};
  const SamplingOptions high = {.temperature = 2,
                                .top_k = 1'000'000,
                                .top_p = 1,
                                .min_p = 1,
                                .presence_penalty = 2,
                                .frequency_penalty = 2,
                                .repetition_penalty = 10,
                                .logit_bias = {{99, 100.0}}};
  EXPECT_TRUE(resolve_sampling(low, {}, kVocabulary));
  EXPECT_TRUE(resolve_sampling(high, {}, kVocabulary));
}

TEST(Sampling, LeavesOnlyTheLikeliestTokenAtTopPZero) {
  const SampleParams params = resolve_sampling({.top_k = 20, .top_p = 0}, {}, kVocabulary).value();
  EXPECT_EQ(params.top_k, 1U);
}

TEST(Sampling, SwitchesTopKOffWhenItCoversTheVocabulary) {
  EXPECT_EQ(resolve_sampling({.top_k = 100}, {}, kVocabulary).value().top_k, 0U);
  EXPECT_EQ(resolve_sampling({.top_k = 99}, {}, kVocabulary).value().top_k, 99U);
}

TEST(Sampling, BansTheIdsWithABiasOfMinusAHundred) {
  const SampleParams params = resolve_sampling({.logit_bias = {{4, -100.0}, {5, 2.5}}}, {}, kVocabulary).value();
  EXPECT_EQ(params.banned, std::vector<uint32_t>{4});
  ASSERT_EQ(params.bias.size(), 1U);
  EXPECT_EQ(params.bias[0], (std::pair<uint32_t, float>{5, 2.5F}));
}

TEST(Sampling, DrawsDifferentSeeds) {
  EXPECT_NE(random_seed(), random_seed());
}

}  // namespace
}  // namespace lily
