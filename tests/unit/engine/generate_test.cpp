// One request at a time: chunks, text, stops, limits, logprobs, ends.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/engine/fake_engine.h"

namespace lily::test {
namespace {

/// Everything must hold with one step in flight and with two.
class GenerateTest : public testing::TestWithParam<uint32_t> {
 protected:
  FakeEngineOptions options() const {
    FakeEngineOptions options;
    options.depth = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Depth, GenerateTest, testing::Values(1U, 2U));

TEST_P(GenerateTest, FeedsThePromptInChunksThatEndAtMultiplesOf64ThenDecodesOneRowAtATime) {
  FakeEngine fake(options());
  Session session = fake.session();
  const GenerateResult result = fake.run(session, {.prompt = counting(0, 100), .max_tokens = 5});
  EXPECT_EQ(result.token_ids, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(result.finish_reason, FinishReason::kLength);
  EXPECT_EQ(result.text, "<0><1><2><3><4>");
  const auto& steps = fake.record->steps;
  ASSERT_EQ(steps.size(), 6U);
  EXPECT_EQ(steps[0].mode, PlanMode::kPrefill);
  EXPECT_EQ(steps[0].step.rows(), 64U);
  EXPECT_EQ(steps[0].step.logit_rows(), 0U);
  EXPECT_EQ(steps[1].step.rows(), 36U);
  EXPECT_EQ(steps[1].step.logit_rows(), 1U);
  EXPECT_EQ(steps[1].step.runs[0].first_position, 64U);
  for (size_t i = 2; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].mode, PlanMode::kDecode);
    EXPECT_EQ(steps[i].bucket, 1U);
    EXPECT_EQ(steps[i].step.runs[0].first_position, 98U + i);
    EXPECT_EQ(steps[i].step.samples[0].position, 99U + i);
  }
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST_P(GenerateTest, ASessionThatEndsInsideABlockIsContinuedUpToTheNextMultipleOf64) {
  FakeEngine fake(options());
  Session session = fake.session();
  fake.run(session, {.prompt = counting(0, 100), .max_tokens = 1});
  const size_t before = fake.record->steps.size();
  fake.run(session, {.prompt = counting(0, 300), .max_tokens = 1});
  const auto& steps = fake.record->steps;
  ASSERT_GT(steps.size(), before + 1);
  EXPECT_EQ(steps[before].step.runs[0].first_position, 100U);
  for (size_t i = before; i < steps.size(); ++i) {
    const lily::Run& run = steps[i].step.runs[0];
    const uint32_t end = run.first_position + run.rows;
    EXPECT_TRUE(end % 64 == 0 || end == 300) << end;
  }
}

TEST_P(GenerateTest, DoesNotFeedTheLastToken) {
  FakeEngine fake(options());
  Session session = fake.session();
  fake.run(session, {.prompt = {7}, .max_tokens = 3});
  EXPECT_EQ(std::vector<uint32_t>(session.fed().begin(), session.fed().end()), (std::vector<uint32_t>{7, 8, 9}));
}

TEST_P(GenerateTest, StopsAtAStopTokenWhichIsReturnedButNotPartOfTheText) {
  FakeEngineOptions with = options();
  with.stop_ids = {13, 50};
  FakeEngine fake(with);
  Session session = fake.session();
  const GenerateResult result = fake.run(session, {.prompt = {10}});
  EXPECT_EQ(result.token_ids, (std::vector<uint32_t>{11, 12, 13}));
  EXPECT_EQ(result.text, "<11><12>");
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  EXPECT_EQ(result.stop_id, 13U);
}

TEST_P(GenerateTest, ALookAheadStepAfterTheStopLeavesTheSessionUsable) {
  FakeEngineOptions with = options();
  with.stop_ids = {13};
  FakeEngine fake(with);
  Session session = fake.session();
  fake.run(session, {.prompt = {10}});
  // With two steps in flight the stop token itself has been fed already; either way the session knows.
  const std::vector<uint32_t> expected =
      GetParam() == 1 ? std::vector<uint32_t>{10, 11, 12} : std::vector<uint32_t>{10, 11, 12, 13};
  EXPECT_EQ(std::vector<uint32_t>(session.fed().begin(), session.fed().end()), expected);
  const GenerateResult next = fake.run(session, {.prompt = {10, 11, 12, 13, 30}, .max_tokens = 2});
  EXPECT_EQ(next.timings.cached_tokens, expected.size());
  EXPECT_EQ(next.token_ids, (std::vector<uint32_t>{31, 32}));
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST_P(GenerateTest, IgnoresTheModelsStopTokensWhenAskedButNotTheRequests) {
  FakeEngineOptions with = options();
  with.stop_ids = {13};
  FakeEngine fake(with);
  Session session = fake.session();
  const GenerateResult result = fake.run(session, {.prompt = {10}, .ignore_eos = true, .stop_ids = {15}});
  EXPECT_EQ(result.token_ids, (std::vector<uint32_t>{11, 12, 13, 14, 15}));
  EXPECT_EQ(result.stop_id, 15U);
}

TEST_P(GenerateTest, DrawsNoStopTokenBeforeTheMinimum) {
  FakeEngineOptions with = options();
  with.logits = recite(1, {13, 13, 13, 13});
  with.stop_ids = {13};
  FakeEngine fake(with);
  Session session = fake.session();
  const GenerateResult result = fake.run(session, {.prompt = {1}, .max_tokens = 9, .min_tokens = 2});
  EXPECT_EQ(result.token_ids, (std::vector<uint32_t>{0, 0, 13})) << "argmax among equals is the lowest id";
}

TEST_P(GenerateTest, ReusesASessionThatHoldsAStrictPrefixAndStartsOverOtherwise) {
  FakeEngine fake(options());
  Session session = fake.session();
  fake.run(session, {.prompt = counting(0, 70), .max_tokens = 1});
  const GenerateResult longer = fake.run(session, {.prompt = counting(0, 80), .max_tokens = 1});
  EXPECT_EQ(longer.timings.cached_tokens, 70U);
  EXPECT_EQ(longer.timings.prefill_tokens, 10U);
  const GenerateResult equal = fake.run(session, {.prompt = counting(0, 80), .max_tokens = 1});
  EXPECT_EQ(equal.timings.cached_tokens, 0U) << "the logits of the last token are gone";
  const GenerateResult other = fake.run(session, {.prompt = counting(1, 90), .max_tokens = 1});
  EXPECT_EQ(other.timings.cached_tokens, 0U);
  EXPECT_EQ(other.token_ids, std::vector<uint32_t>{91});
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST_P(GenerateTest, EndsWithLengthAtTheContextLimit) {
  FakeEngineOptions with = options();
  with.context = 70;
  FakeEngine fake(with);
  Session session = fake.session();
  const GenerateResult result = fake.run(session, {.prompt = counting(0, 66), .max_tokens = 50});
  EXPECT_EQ(result.token_ids.size(), 4U);
  EXPECT_EQ(result.finish_reason, FinishReason::kLength);
  EXPECT_EQ(session.length(), 69U);
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST_P(GenerateTest, RefusesAPromptThatFillsTheContextWithBothNumbers) {
  FakeEngineOptions with = options();
  with.context = 70;
  FakeEngine fake(with);
  Session session = fake.session();
  const auto result = fake.engine->generate(session, {.prompt = counting(0, 70)});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.failure().kind, FailureKind::kTooLong);
  EXPECT_NE(result.failure().message.find("70 tokens, and the context limit is 70"), std::string::npos)
      << result.failure().message;
  EXPECT_TRUE(fake.record->steps.empty());
}

TEST_P(GenerateTest, RefusesBadFieldsByName) {
  FakeEngine fake(options());
  Session session = fake.session();
  const std::vector<std::pair<std::string, GenerateRequest>> cases = {
      {"prompt", {.prompt = {}}},
      {"prompt", {.prompt = {1, 128}}},
      {"max_tokens", {.prompt = {1}, .max_tokens = 0}},
      {"min_tokens", {.prompt = {1}, .max_tokens = 3, .min_tokens = 4}},
      {"stop", {.prompt = {1}, .stop_strings = {"a", ""}}},
      {"stop", {.prompt = {1}, .stop_strings = std::vector<std::string>(17, "x")}},
      {"stop_token_ids", {.prompt = {1}, .stop_ids = {100}}},
      {"top_logprobs", {.prompt = {1}, .top_logprobs = 21}},
      {"temperature", {.prompt = {1}, .sampling = {.temperature = -1}}},
  };
  for (const auto& [field, request] : cases) {
    const auto result = fake.engine->generate(session, request);
    ASSERT_FALSE(result) << field;
    EXPECT_EQ(result.failure().kind, FailureKind::kInvalid);
    EXPECT_EQ(result.failure().param, field) << result.failure().message;
  }
  EXPECT_TRUE(fake.record->steps.empty());
}

TEST_P(GenerateTest, FindsAStopStringAcrossTokensAndHoldsItsBeginningBack) {
  FakeEngineOptions with = options();
  with.pieces = {"", "Hello", " wor", "ld EN", "D of", " text"};
  FakeEngine fake(with);
  Session session = fake.session();
  std::vector<std::string> deltas;
  const GenerateResult result = fake.run(session, {.prompt = {0}, .stop_strings = {"END"}},
                                         {.on_token = [&](const TokenEvent& e) { deltas.emplace_back(e.text); }});
  EXPECT_EQ(result.text, "Hello world ");
  EXPECT_EQ(result.stop_string, "END");
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  EXPECT_EQ(deltas, (std::vector<std::string>{"Hello", " wor", "ld ", ""}));
}

TEST_P(GenerateTest, TextHeldBackForAStopStringComesOutWhenTheAnswerEndsOtherwise) {
  FakeEngineOptions with = options();
  with.pieces = {"", "the EN", "unused", "EN"};
  with.stop_ids = {2};
  FakeEngine fake(with);
  Session session = fake.session();
  std::string streamed;
  const GenerateCallbacks callbacks = {.on_token = [&](const TokenEvent& event) { streamed += event.text; }};
  EXPECT_EQ(fake.run(session, {.prompt = {0}, .stop_strings = {"END"}}, callbacks).text, "the EN");
  EXPECT_EQ(fake.run(session, {.prompt = {0}, .max_tokens = 1, .stop_strings = {"END"}}, callbacks).text, "the EN");
  EXPECT_EQ(streamed, "the ENthe EN");
}

TEST_P(GenerateTest, FindsAStopStringWhoseCharactersAreCutByTokens) {
  // U+1F680 is f0 9f 9a 80; the tokens cut it in the middle.
  FakeEngineOptions with = options();
  with.pieces = {"", "go \xf0\x9f", "\x9a\x80! now", " later"};
  FakeEngine fake(with);
  Session session = fake.session();
  const GenerateResult result = fake.run(session, {.prompt = {0}, .stop_strings = {"\xf0\x9f\x9a\x80!"}});
  EXPECT_EQ(result.text, "go ");
  EXPECT_EQ(result.token_ids.size(), 2U);
}

TEST_P(GenerateTest, EveryDeltaIsWholeCharactersAndTheirSumIsTheText) {
  FakeEngineOptions with = options();
  with.pieces = {"", "\xc4", "\x8f", "\xed\x95", "\x9c", "a", "\xf0\x9f\x9a"};
  FakeEngine fake(with);
  Session session = fake.session();
  std::vector<std::string> deltas;
  const GenerateResult result = fake.run(session, {.prompt = {0}, .max_tokens = 6},
                                         {.on_token = [&](const TokenEvent& e) { deltas.emplace_back(e.text); }});
  EXPECT_EQ(deltas, (std::vector<std::string>{"", "\xc4\x8f", "", "\xed\x95\x9c", "a", "\xef\xbf\xbd"}));
  EXPECT_EQ(result.text,
            "\xc4\x8f\xed\x95\x9c"
            "a\xef\xbf\xbd");
  EXPECT_EQ(result.tail, "");
}

TEST_P(GenerateTest, SkipsSpecialTokensInTheTextUnlessAsked) {
  FakeEngineOptions with = options();
  with.special = {11};
  FakeEngine fake(with);
  Session session = fake.session();
  EXPECT_EQ(fake.run(session, {.prompt = {9}, .max_tokens = 3}).text, "<10><12>");
  EXPECT_EQ(fake.run(session, {.prompt = {9}, .max_tokens = 3, .keep_special = true}).text, "<10><11><12>");
}

TEST_P(GenerateTest, NeverDrawsPaddingIds) {
  FakeEngineOptions with = options();
  with.logits = [](std::span<const uint32_t>, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), 0.0F);
    logits[120] = 9.0F;  // a row without a token
    logits[5] = 1.0F;
  };
  FakeEngine fake(with);
  Session session = fake.session();
  EXPECT_EQ(fake.run(session, {.prompt = {120}, .max_tokens = 1}).token_ids, std::vector<uint32_t>{5});
}

TEST_P(GenerateTest, ReportsLogprobsOfTheRawLogits) {
  FakeEngineOptions with = options();
  with.vocab = 4;
  with.vocabulary = 4;
  with.logits = [](std::span<const uint32_t>, std::span<float> logits) {
    const float values[] = {2.0F, 1.0F, 0.0F, -1.0F};
    std::copy(std::begin(values), std::end(values), logits.begin());
  };
  FakeEngine fake(with);
  Session session = fake.session();
  std::vector<float> streamed;
  const GenerateRequest request = {
      .prompt = {1}, .sampling = {.logit_bias = {{1, 50.0}}}, .max_tokens = 2, .top_logprobs = 2};
  const GenerateResult result = fake.run(session, request, {.on_token = [&](const TokenEvent& event) {
                                           ASSERT_NE(event.logprobs, nullptr);
                                           streamed.push_back(event.logprobs->logprob);
                                         }});
  ASSERT_EQ(result.logprobs.size(), 2U);
  const double norm = std::log(std::exp(2.0) + std::exp(1.0) + 1.0 + std::exp(-1.0));
  EXPECT_EQ(result.token_ids[0], 1U) << "the bias decides the draw";
  EXPECT_NEAR(result.logprobs[0].logprob, 1.0 - norm, 1e-5) << "and does not enter the report";
  ASSERT_EQ(result.logprobs[0].top.size(), 2U);
  EXPECT_EQ(result.logprobs[0].top[0].first, 0U);
  EXPECT_NEAR(result.logprobs[0].top[0].second, 2.0 - norm, 1e-5);
  EXPECT_EQ(streamed.size(), 2U);
}

TEST_P(GenerateTest, ANonFiniteLogitEndsTheRequestAndNeverBecomesAToken) {
  FakeEngineOptions with = options();
  with.logits = [](std::span<const uint32_t> history, std::span<float> logits) {
    count_up(100)(history, logits);
    if (history.size() == 4) {
      logits[3] = std::numeric_limits<float>::quiet_NaN();
    }
  };
  FakeEngine fake(with);
  Session session = fake.session();
  const GenerateResult result = fake.run(session, {.prompt = {10, 11}});
  EXPECT_EQ(result.finish_reason, FinishReason::kError);
  EXPECT_EQ(result.token_ids, (std::vector<uint32_t>{12, 13}));
  EXPECT_NE(result.error.find("not finite at position 3"), std::string::npos) << result.error;
  EXPECT_EQ(session.length(), 0U) << "such a state is not kept";
  EXPECT_EQ(fake.run(session, {.prompt = {40}, .max_tokens = 2}).token_ids, (std::vector<uint32_t>{41, 42}));
}

TEST_P(GenerateTest, EndsWithAnErrorWhenEveryTokenIsBanned) {
  FakeEngineOptions with = options();
  with.vocab = 4;
  with.vocabulary = 3;
  FakeEngine fake(with);
  Session session = fake.session();
  const GenerateResult result =
      fake.run(session, {.prompt = {1}, .sampling = {.logit_bias = {{0, -100.0}, {1, -100.0}, {2, -100.0}}}});
  EXPECT_EQ(result.finish_reason, FinishReason::kError);
  EXPECT_NE(result.error.find("every token is banned"), std::string::npos) << result.error;
}

TEST_P(GenerateTest, CancelDuringPrefillStopsAtTheNextChunkAndTheSessionGoesOn) {
  FakeEngine fake(options());
  Session session = fake.session();
  std::atomic<bool> cancel = false;
  std::vector<uint32_t> progress;
  const GenerateResult result = fake.run(session, {.prompt = counting(0, 1000), .cancel = &cancel},
                                         {.on_prefill_progress = [&](uint32_t done, uint32_t total) {
                                           EXPECT_EQ(total, 1000U);
                                           progress.push_back(done);
                                           cancel = true;
                                         }});
  EXPECT_EQ(result.finish_reason, FinishReason::kCancelled);
  EXPECT_TRUE(result.token_ids.empty());
  EXPECT_EQ(progress, std::vector<uint32_t>{64});
  EXPECT_LE(fake.record->steps.size(), GetParam());
  const uint32_t kept = session.length();
  EXPECT_EQ(kept, result.timings.prefill_tokens);
  EXPECT_GT(kept, 0U);
  const GenerateResult again = fake.run(session, {.prompt = counting(0, 1000), .max_tokens = 1});
  EXPECT_EQ(again.timings.cached_tokens, kept);
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST_P(GenerateTest, CancelWhileDecodingKeepsWhatWasFedAndTheTextSoFar) {
  FakeEngineOptions with = options();
  with.pieces = {"", "one ", "two \xc4", "\x8f three"};
  FakeEngine fake(with);
  Session session = fake.session();
  std::atomic<bool> cancel = false;
  std::string streamed;
  const GenerateResult result =
      fake.run(session, {.prompt = {0}, .cancel = &cancel}, {.on_token = [&](const TokenEvent& event) {
                 streamed += event.text;
                 cancel = event.id == 2;
               }});
  EXPECT_EQ(result.finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(result.text, streamed + result.tail);
  EXPECT_EQ(result.text, "one two \xef\xbf\xbd");
  const std::vector<uint32_t> fed(session.fed().begin(), session.fed().end());
  EXPECT_EQ(fed, counting(0, static_cast<uint32_t>(fed.size())));
  const GenerateResult next = fake.run(session, {.prompt = {0, 1, 2, 3, 60}, .max_tokens = 1});
  EXPECT_EQ(next.timings.cached_tokens, fed.size());
  EXPECT_EQ(next.token_ids, std::vector<uint32_t>{61});
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST_P(GenerateTest, TheSameSeedGivesTheSameTokensAndAnotherSeedOthers) {
  FakeEngine fake(options());
  Session session = fake.session();
  const auto draw = [&](std::optional<uint64_t> seed, uint32_t choice) {
    session.reset();
    return fake.run(
        session,
        {.prompt = {1, 2, 3}, .sampling = {.temperature = 1, .seed = seed}, .max_tokens = 20, .choice = choice});
  };
  const GenerateResult first = draw(5, 0);
  EXPECT_EQ(first.seed, 5U);
  EXPECT_EQ(draw(5, 0).token_ids, first.token_ids);
  EXPECT_NE(draw(6, 0).token_ids, first.token_ids);
  EXPECT_NE(draw(5, 1).token_ids, first.token_ids);
  const GenerateResult free = draw({}, 0);
  EXPECT_NE(free.token_ids, draw({}, 0).token_ids);
  EXPECT_EQ(draw(free.seed, 0).token_ids, free.token_ids) << "the reported seed repeats a random run";
}

TEST_P(GenerateTest, PenaltiesCountThisRequestsOutputAndRepetitionAlsoThePrompt) {
  // Case: logits [2, 1, 0, ...], generated [0, 0], prompt [1]; presence 1.5, frequency 0.5 give token 0 the value -0.5.
  FakeEngineOptions with = options();
  with.vocab = 4;
  with.vocabulary = 4;
  with.logits = [](std::span<const uint32_t>, std::span<float> logits) {
    const float values[] = {2.0F, 1.0F, -0.4F, -9.0F};
    std::copy(std::begin(values), std::end(values), logits.begin());
  };
  FakeEngine fake(with);
  Session session = fake.session();
  const SamplingOptions additive = {.presence_penalty = 1.5, .frequency_penalty = 0.5};
  // 0 (2.0), then 0 is worth 0.0 and 1 wins, then 1 is worth -1.0, 0 still 0.0 and wins, then 0 is worth -0.5 < -0.4.
  EXPECT_EQ(fake.run(session, {.prompt = {1}, .sampling = additive, .max_tokens = 4}).token_ids,
            (std::vector<uint32_t>{0, 1, 0, 2}));
  session.reset();
  EXPECT_EQ(fake.run(session, {.prompt = {1}, .sampling = additive, .max_tokens = 1}).token_ids,
            std::vector<uint32_t>{0})
      << "the counts of the request before are gone";
  session.reset();
  EXPECT_EQ(fake.run(session, {.prompt = {0}, .sampling = {.repetition_penalty = 4}, .max_tokens = 1}).token_ids,
            std::vector<uint32_t>{1})
      << "token 0 is in the prompt";
}

TEST_P(GenerateTest, ADeviceFaultEndsTheRequestWithItsMessage) {
  FakeEngineOptions with = options();
  with.fault_at = 2;
  FakeEngine fake(with);
  Session session = fake.session();
  const GenerateResult result = fake.run(session, {.prompt = {10}});
  EXPECT_EQ(result.finish_reason, FinishReason::kError);
  EXPECT_EQ(result.error, "the fake device has failed");
  EXPECT_EQ(session.length(), 0U);
  EXPECT_EQ(fake.run(session, {.prompt = {40}, .max_tokens = 2}).token_ids, (std::vector<uint32_t>{41, 42}));
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST_P(GenerateTest, ACallbackThatThrowsLeavesTheEngineUsable) {
  FakeEngine fake(options());
  Session session = fake.session();
  EXPECT_THROW(fake.run(session, {.prompt = {1}}, {.on_token = [](const TokenEvent&) { throw std::string("closed"); }}),
               std::string);
  EXPECT_EQ(fake.engine->scheduler().size(), 0U);
  EXPECT_EQ(fake.run(session, {.prompt = {40}, .max_tokens = 2}).token_ids, (std::vector<uint32_t>{41, 42}));
}

TEST_P(GenerateTest, ACallbackThatThrowsOnTheLastTokenLeavesNoTrace) {
  FakeEngine fake(options());
  for (int round = 0; round < 2; ++round) {
    Session session = fake.session();
    int tokens = 0;
    const auto on_token = [&tokens](const TokenEvent&) {
      if (++tokens == 2) throw std::string("closed");
    };
    EXPECT_THROW(fake.run(session, {.prompt = {1}, .max_tokens = 2}, {.on_token = on_token}), std::string);
    EXPECT_EQ(fake.engine->scheduler().size(), 0U);
    EXPECT_EQ(fake.run(session, {.prompt = {40}, .max_tokens = 2}).token_ids, (std::vector<uint32_t>{41, 42}));
  }
}

TEST(LookAhead, SubmitsTheNextStepWithItsTokenFromTheMailboxBeforeReadingTheLast) {
  FakeEngine fake({.depth = 2});
  Session session = fake.session();
  fake.run(session, {.prompt = {10}, .max_tokens = 6});
  const auto& steps = fake.record->steps;
  ASSERT_EQ(steps.size(), 6U);
  for (size_t i = 1; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].step.tokens, std::vector<int32_t>{-1 - static_cast<int32_t>(session.sequence())});
    EXPECT_EQ(steps[i].step.ring, i % kStepRing);
  }
  EXPECT_EQ(fake.record->most_in_flight, 4U) << "forward and sample of two steps";
}

TEST(LookAhead, ReadsEachTokenFirstWhenOneStepIsInFlight) {
  FakeEngine fake({.depth = 1});
  Session session = fake.session();
  fake.run(session, {.prompt = {10}, .max_tokens = 3});
  ASSERT_EQ(fake.record->steps.size(), 3U);
  EXPECT_EQ(fake.record->steps[1].step.tokens, std::vector<int32_t>{11});
  EXPECT_EQ(fake.record->steps[2].step.tokens, std::vector<int32_t>{12});
}

TEST(LookAhead, DoesNotOvershootTheTokenLimit) {
  FakeEngine fake({.depth = 2});
  Session session = fake.session();
  fake.run(session, {.prompt = {10}, .max_tokens = 1});
  EXPECT_EQ(fake.record->steps.size(), 1U);
}

}  // namespace
}  // namespace lily::test
