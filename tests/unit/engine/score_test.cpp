#include "engine/score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/engine/fake_engine.h"

namespace lily::test {
namespace {

/// Logits that depend on the whole history, spread widely.
void noisy(std::span<const uint32_t> history, std::span<float> logits) {
  uint32_t seed = 1;
  for (const uint32_t token : history) {
    seed = seed * 1664525U + token + 1013904223U;
  }
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 6.0F);
  for (float& value : logits) {
    value = normal(random);
  }
}

FakeEngineOptions scoring() {
  FakeEngineOptions options;
  options.logits = noisy;
  options.vocab = 1003;
  options.vocabulary = 1000;
  options.logit_rows = 64;
  return options;
}

TEST(Score, MatchesADirectComputationInDouble) {
  FakeEngine fake(scoring());
  Session session = fake.session();
  const std::vector<uint32_t> tokens = counting(5, 100);
  const auto scores = score(*fake.engine, session, tokens).value();
  ASSERT_EQ(scores.size(), tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::vector<float> logits(1003);
    noisy(std::span(tokens).first(i + 1), logits);
    double sum = 0;
    for (const float value : logits) {
      sum += std::exp(static_cast<double>(value));
    }
    const double nll = i + 1 < tokens.size() ? std::log(sum) - static_cast<double>(logits[tokens[i + 1]]) : 0.0;
    EXPECT_NEAR(scores[i].nll, nll, 2e-5) << i;
    const auto best = std::max_element(logits.begin(), logits.end());
    EXPECT_EQ(scores[i].argmax, static_cast<uint32_t>(best - logits.begin()));
    const float first = *best;
    *best = -1e30F;
    EXPECT_EQ(scores[i].margin, first - *std::max_element(logits.begin(), logits.end()));
  }
  EXPECT_EQ(session.length(), 100U);
}

TEST(Score, EveryCutGivesTheSameScores) {
  FakeEngine fake(scoring());
  const std::vector<uint32_t> tokens = counting(0, 150);
  std::vector<std::vector<float>> all;
  for (const std::vector<uint32_t>& cuts : std::vector<std::vector<uint32_t>>{{}, {1}, {7, 50, 3}}) {
    Session session = fake.session();
    std::vector<float>& nll = all.emplace_back();
    std::vector<uint32_t> seen;
    ScoreOptions options;
    options.cuts = cuts;
    options.on_logits = [&](uint32_t first, std::span<const float> logits) {
      seen.push_back(first);
      EXPECT_EQ(logits.size() % 1003, 0U);
    };
    const auto scores = score(*fake.engine, session, tokens, options).value();
    for (const PositionScore& each : scores) {
      nll.push_back(each.nll);
    }
    EXPECT_EQ(seen.size(), cuts.empty() ? 3U : cuts.size() == 1 ? 150U : 33U);
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST(Score, RunsTheDecodeProgramForPassesOfOneRow) {
  FakeEngine fake(scoring());
  Session session = fake.session();
  ScoreOptions options;
  options.cuts = {2, 1};
  ASSERT_TRUE(score(*fake.engine, session, counting(0, 4), options));
  ASSERT_EQ(fake.record->steps.size(), 3U);
  EXPECT_EQ(fake.record->steps[0].mode, PlanMode::kPrefill);
  EXPECT_EQ(fake.record->steps[1].mode, PlanMode::kDecode);
}

TEST(Score, RefusesLogitsThatAreNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    FakeEngineOptions with = scoring();
    with.logits = [bad](std::span<const uint32_t> history, std::span<float> logits) {
      noisy(history, logits);
      if (history.size() == 3) {
        logits[1002] = bad;
      }
    };
    FakeEngine fake(with);
    Session session = fake.session();
    const auto result = score(*fake.engine, session, counting(0, 10));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.failure().kind, FailureKind::kRuntime);
    EXPECT_NE(result.failure().message.find("after token 2"), std::string::npos) << result.failure().message;
    EXPECT_EQ(session.length(), 0U);
  }
}

TEST(Score, RefusesMoreTokensThanTheContextHolds) {
  FakeEngine fake(scoring());
  Session session = fake.session();
  const auto result = score(*fake.engine, session, std::vector<uint32_t>(1025, 1));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.failure().kind, FailureKind::kTooLong);
}

TEST(Perplexity, AveragesOverWindowsThatEachStartAfresh) {
  FakeEngine fake(scoring());
  const std::vector<uint32_t> tokens = counting(0, 130);
  double expected = 0;
  for (const auto& [first, count] : std::vector<std::pair<uint32_t, uint32_t>>{{0, 64}, {64, 64}}) {
    Session session = fake.session();
    const auto scores = score(*fake.engine, session, std::span(tokens).subspan(first, count)).value();
    for (const PositionScore& each : scores) {
      expected += static_cast<double>(each.nll);
    }
  }
  std::vector<uint32_t> progress;
  uint64_t fed = 0;
  const Perplexity result = perplexity(*fake.engine, tokens, 64,
                                       {.on_progress =
                                            [&](uint64_t done, uint64_t total) {
                                              EXPECT_EQ(total, 128U) << "the rest of two tokens is dropped";
                                              fed = done;
                                            },
                                        .on_window =
                                            [&](uint32_t done, std::span<const PositionScore> scores) {
                                              EXPECT_EQ(scores.size(), 64U);
                                              progress.push_back(done);
                                              return true;
                                            }})
                                .value();
  EXPECT_EQ(result.windows, 2U);
  EXPECT_EQ(fed, 128U);
  EXPECT_EQ(result.scored_tokens, 126U);
  EXPECT_NEAR(result.mean_nll, expected / 126, 1e-9);
  EXPECT_NEAR(result.perplexity, std::exp(expected / 126), 1e-6 * result.perplexity);
  EXPECT_EQ(progress, (std::vector<uint32_t>{1, 2}));
}

TEST(Perplexity, CanBeStoppedAndRefusesTooLittleText) {
  FakeEngine fake(scoring());
  const auto stopped =
      perplexity(*fake.engine, counting(0, 130), 64,
                 {.on_window = [](uint32_t done, std::span<const PositionScore>) { return done < 2; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.failure().kind, FailureKind::kCancelled);
  EXPECT_FALSE(perplexity(*fake.engine, counting(0, 1), 64));
  EXPECT_FALSE(perplexity(*fake.engine, counting(0, 10), 1));
  EXPECT_FALSE(perplexity(*fake.engine, counting(0, 10), 2000));
}

}  // namespace
}  // namespace lily::test
