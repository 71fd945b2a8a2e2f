// sample, the draws: their distribution against the reference's, and that a draw depends on seed, choice and position
// alone. All seeds are fixed, so a bound that holds once holds always.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/ops/backends.h"
#include "tests/ops/sample_rig.h"
#include "tests/ops/shapes.h"
#include "tests/ref/sampling.h"

namespace lily::ops {
namespace {

constexpr uint32_t kBatch = 250;
constexpr uint32_t kDraws = 20000;

/// Draw number `index` of the grid: seeds, choices and positions all vary.
SampleParams draw(SampleParams params, uint32_t index) {
  params.seed = 1000 + index / 2000;
  params.choice = index / 500 % 4;
  params.position = 7 + index % 500;
  return params;
}

/// Tokens of draws [0, count) from logit row 0, in batches; each sample has a slot of its own.
std::vector<int32_t> draw_many(SampleRig& rig, const SampleParams& params, uint32_t count, uint32_t batch) {
  std::vector<int32_t> tokens;
  for (uint32_t first = 0; first < count; first += batch) {
    std::vector<SampleParams> samples;
    for (uint32_t i = first; i < std::min(first + batch, count); ++i) {
      samples.push_back(draw(params, i));
      samples.back().sequence = i - first;
    }
    for (const SampleResult& result : rig.run(samples)) tokens.push_back(result.token);
  }
  return tokens;
}

/// Chi-square of the counts against probabilities; rare tokens share a bin. Fails on a token of probability 0.
void expect_distribution(const std::vector<int32_t>& tokens, const Values& probability) {
  Values seen(probability.size(), 0.0);
  for (const int32_t token : tokens) {
    ASSERT_GE(token, 0);
    ASSERT_LT(static_cast<size_t>(token), probability.size());
    ASSERT_GT(probability[static_cast<size_t>(token)], 0.0) << "token " << token << " is filtered out";
    seen[static_cast<size_t>(token)] += 1;
  }
  double statistic = 0;
  double bins = 0;
  double rare_seen = 0;
  double rare_expected = 0;
  const auto add = [&](double observed, double expected) {
    statistic += (observed - expected) * (observed - expected) / expected;
    bins += 1;
  };
  for (size_t id = 0; id < probability.size(); ++id) {
    const double expected = probability[id] * static_cast<double>(tokens.size());
    if (expected < 8) {
      rare_seen += seen[id];
      rare_expected += expected;
    } else {
      add(seen[id], expected);
    }
  }
  if (rare_expected > 0.5) add(rare_seen, rare_expected);
  ASSERT_GE(bins, 2);
  const double freedom = bins - 1;
  EXPECT_LT(statistic, freedom + 4 * std::sqrt(2 * freedom)) << "chi-square over " << bins << " bins";
}

struct DrawCase {
  std::vector<float> logits;
  std::vector<uint32_t> counts;
  std::vector<uint32_t> mask;
  std::vector<SampleParams> params;

  DrawCase()
      : logits(random_logits(mini_shape().vocab, 2.0, 301)),
        counts(mini_shape().vocab, 0),
        mask(mini_shape().vocab / 32, 0xfffffff3U),
        params(6, sample_params(mini_shape(), 1.0F)) {
    const std::vector<uint32_t> best = ref::largest(Values(logits.begin(), logits.end()), 8);
    counts[best[0]] = 2;
    counts[best[4]] = ref::kPromptBit;
    counts[best[5]] = ref::kPromptBit | 1U;
    params[1].temperature = 0.7F;
    params[1].top_k = 20;
    params[2].temperature = 1.3F;
    params[2].top_p = 0.9F;
    params[3].min_p = 0.05F;
    params[4].vocabulary = 300;
    params[4].temperature = 2.0F;
    params[5].temperature = 0.8F;
    params[5].top_k = 60;
    params[5].top_p = 0.97F;
    params[5].min_p = 0.01F;
    params[5].bias = {{best[6], 1.0F}, {best[1], -0.5F}};
    params[5].banned = {best[2]};
    params[5].mask = mask.data();
  }
};

TEST(sample_draw, FollowsTheReferenceDistribution) {
  const DrawCase made;
  for (const BackendCase& each : op_backends()) {
    if (each.threads != 2) continue;
    SampleRig rig(*each.backend, mini_shape(), kBatch);
    rig.write_logits(0, made.logits);
    for (size_t i = 0; i < made.params.size(); ++i) {
      SCOPED_TRACE(each.label + ", case " + std::to_string(i));
      expect_distribution(draw_many(rig, made.params[i], kDraws, kBatch),
                          ref::token_distribution(made.logits, made.params[i], {}));
    }
  }
}

TEST(sample_draw, FollowsThePenalties) {
  const DrawCase made;
  SampleParams params = made.params[1];
  params.repetition_penalty = 1.2F;
  params.presence_penalty = 0.5F;
  params.frequency_penalty = 0.25F;
  for (const BackendCase& each : op_backends()) {
    if (each.threads != 1) continue;
    SCOPED_TRACE(each.label);
    SampleRig rig(*each.backend, mini_shape(), kBatch);
    rig.write_logits(0, made.logits);
    std::vector<int32_t> tokens;
    for (uint32_t first = 0; first < 5000; first += kBatch) {
      std::vector<SampleParams> samples;
      for (uint32_t i = 0; i < kBatch; ++i) {
        rig.write_counts(i, made.counts);  // a draw counts its token
        samples.push_back(draw(params, 4 * (first + i)));
        samples.back().sequence = i;
      }
      for (const SampleResult& result : rig.run(samples)) tokens.push_back(result.token);
    }
    expect_distribution(tokens, ref::token_distribution(made.logits, params, made.counts));
  }
}

TEST(sample_draw, NeighbouringPositionsChoicesAndSeedsAreIndependent) {
  // Two tokens of equal weight: pairs of draws that differ in one argument fall evenly on four cells.
  std::vector<float> logits(mini_shape().vocab, -100.0F);
  logits[10] = logits[20] = 1.0F;
  BackendCase each = std::move(op_backends().front());
  SampleRig rig(*each.backend, mini_shape(), kBatch);
  rig.write_logits(0, logits);
  for (const int argument : {0, 1, 2}) {
    std::vector<SampleParams> samples;
    std::map<std::pair<int32_t, int32_t>, double> cells;
    for (uint32_t i = 0; i < 4000; ++i) {
      SampleParams one = sample_params(mini_shape(), 1.0F);
      one.seed = 5 + 3 * (i / 40);
      one.position = 2 * (i % 40);
      SampleParams other = one;
      if (argument == 0) other.position += 1;
      if (argument == 1) other.choice += 1;
      if (argument == 2) other.seed += 1;
      one.sequence = static_cast<uint32_t>(samples.size());
      other.sequence = one.sequence + 1;
      samples.push_back(one);
      samples.push_back(other);
      if (samples.size() < kBatch) continue;
      const std::vector<SampleResult> results = rig.run(samples);
      for (size_t at = 0; at < results.size(); at += 2) cells[{results[at].token, results[at + 1].token}] += 1;
      samples.clear();
    }
    ASSERT_EQ(cells.size(), 4U) << "argument " << argument;
    for (const auto& [pair, count] : cells) EXPECT_NEAR(count, 1000, 120) << "argument " << argument;
  }
}

TEST(sample_draw, IsTheSameInAnyBatchRowAndThread) {
  const DrawCase made;
  std::map<std::string, std::vector<int32_t>> tokens_of;
  for (const BackendCase& each : op_backends()) {
    SampleRig rig(*each.backend, mini_shape(), kBatch);
    rig.write_logits(0, made.logits);
    std::vector<int32_t> tokens = draw_many(rig, made.params[5], 100, 100);
    EXPECT_EQ(draw_many(rig, made.params[5], 100, 1), tokens) << each.label << ", one by one";
    EXPECT_EQ(draw_many(rig, made.params[5], 100, 7), tokens) << each.label << ", by sevens";
    rig.write_logits(0, random_logits(mini_shape().vocab, 1.0, 302));
    rig.write_logits(13, made.logits);
    SampleParams moved = made.params[5];
    moved.logit_row = 13;
    EXPECT_EQ(draw_many(rig, moved, 100, 50), tokens) << each.label << ", from another row";
    if (each.group.empty()) continue;
    EXPECT_EQ(tokens, tokens_of.try_emplace(each.group, tokens).first->second) << each.label;
  }
}

}  // namespace
}  // namespace lily::ops
