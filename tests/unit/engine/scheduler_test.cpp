// Several requests at once.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/engine/fake_engine.h"

namespace lily::test {
namespace {

class SchedulerTest : public testing::TestWithParam<uint32_t> {
 protected:
  static FakeEngineOptions options(uint32_t depth, uint32_t sequences) {
    FakeEngineOptions options;
    options.depth = depth;
    options.sequences = sequences;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Depth, SchedulerTest, testing::Values(1U, 2U));

struct Client {
  explicit Client(FakeEngine& fake) : session(fake.session()) {}
  void start(FakeEngine& fake, GenerateRequest request) {
    const auto id = fake.engine->scheduler().add(session, std::move(request), {},
                                                 [this](GenerateResult&& end) { result = std::move(end); });
    ASSERT_TRUE(id) << id.failure().message;
  }
  Session session;
  std::optional<GenerateResult> result;
};

void run_all(FakeEngine& fake) {
  while (fake.engine->scheduler().step()) {
  }
}

TEST_P(SchedulerTest, EightRequestsShareEveryDecodeStep) {
  FakeEngine fake(options(GetParam(), 8));
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(fake));
    clients.back()->start(fake, {.prompt = {i * 10}, .max_tokens = 9});
  }
  run_all(fake);
  for (uint32_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(clients[i]->result);
    std::vector<uint32_t> expected = counting((i * 10) + 1, 9);
    EXPECT_EQ(clients[i]->result->token_ids, expected);
  }
  const auto& steps = fake.record->steps;
  ASSERT_EQ(steps.size(), 9U) << "one prefill step for the eight prompts, eight decode steps";
  EXPECT_EQ(steps[0].mode, PlanMode::kPrefill);
  EXPECT_EQ(steps[0].step.runs.size(), 8U);
  for (size_t i = 1; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].mode, PlanMode::kDecode);
    EXPECT_EQ(steps[i].bucket, 8U);
    EXPECT_EQ(steps[i].step.runs.size(), 8U);
    EXPECT_EQ(steps[i].step.rows(), 8U);
    EXPECT_EQ(steps[i].step.samples.size(), 8U);
  }
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST_P(SchedulerTest, DecodingGoesOnWhileALongPromptIsFed) {
  FakeEngine fake(options(GetParam(), 2));
  Client quick(fake);
  quick.start(fake, {.prompt = {5}, .max_tokens = 6});
  fake.engine->scheduler().step();
  Client slow(fake);
  slow.start(fake, {.prompt = counting(0, 900), .max_tokens = 2});
  run_all(fake);
  EXPECT_EQ(quick.result->token_ids, counting(6, 6));
  EXPECT_EQ(slow.result->token_ids.size(), 2U);
  // From the second step on the two kinds take turns until the quick request is done.
  const auto& steps = fake.record->steps;
  for (size_t i = 1; i < 9; ++i) {
    EXPECT_EQ(steps[i].mode, i % 2 == 1 ? PlanMode::kDecode : PlanMode::kPrefill) << i;
  }
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST_P(SchedulerTest, ARequestThatFailsLeavesTheOthersAlone) {
  FakeEngineOptions with = options(GetParam(), 3);
  with.logits = [](std::span<const uint32_t> history, std::span<float> logits) {
    count_up(100)(history, logits);
    if (history[0] == 50 && history.size() == 3) {
      logits[0] = NAN;
    }
  };
  FakeEngine fake(with);
  Client good(fake);
  Client bad(fake);
  Client fine(fake);
  good.start(fake, {.prompt = {10}, .max_tokens = 6});
  bad.start(fake, {.prompt = {50}, .max_tokens = 6});
  fine.start(fake, {.prompt = {20}, .max_tokens = 6});
  run_all(fake);
  EXPECT_EQ(bad.result->finish_reason, FinishReason::kError);
  EXPECT_EQ(bad.session.length(), 0U);
  EXPECT_EQ(good.result->token_ids, counting(11, 6));
  EXPECT_EQ(fine.result->token_ids, counting(21, 6));
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST_P(SchedulerTest, ADeviceFaultEndsAllRequestsAndTheNextOneRuns) {
  FakeEngineOptions with = options(GetParam(), 2);
  with.fault_at = 3;
  FakeEngine fake(with);
  Client first(fake);
  Client second(fake);
  first.start(fake, {.prompt = {10}, .max_tokens = 20});
  second.start(fake, {.prompt = {20}, .max_tokens = 20});
  run_all(fake);
  EXPECT_EQ(first.result->finish_reason, FinishReason::kError);
  EXPECT_EQ(second.result->finish_reason, FinishReason::kError);
  first.start(fake, {.prompt = {30}, .max_tokens = 3});
  run_all(fake);
  EXPECT_EQ(first.result->token_ids, counting(31, 3));
}

TEST_P(SchedulerTest, ACallbackMayAddTheNextRequest) {
  FakeEngine fake(options(GetParam(), 1));
  Session session = fake.session();
  std::vector<std::vector<uint32_t>> answers;
  Scheduler& scheduler = fake.engine->scheduler();
  std::function<void(GenerateResult &&)> next = [&](GenerateResult&& result) {
    answers.push_back(result.token_ids);
    if (answers.size() < 3) {
      ASSERT_TRUE(scheduler.add(session, {.prompt = {result.token_ids.back()}, .max_tokens = 2}, {}, next));
    }
  };
  ASSERT_TRUE(scheduler.add(session, {.prompt = {1}, .max_tokens = 2}, {}, next));
  run_all(fake);
  EXPECT_EQ(answers, (std::vector<std::vector<uint32_t>>{{2, 3}, {4, 5}, {6, 7}}));
}

// The answer of a request must not depend on what else runs.
TEST_P(SchedulerTest, RandomTrafficGivesEveryRequestTheAnswerItWouldHaveAlone) {
  FakeEngineOptions with = options(GetParam(), 6);
  with.stop_ids = {97};
  with.context = 512;
  FakeEngine fake(with);
  auto random = [engine = std::mt19937(11)]() mutable { return static_cast<uint32_t>(engine()); };
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::vector<uint32_t>> expected(6);
  for (uint32_t i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<Client>(fake));
  }
  uint32_t finished = 0;
  for (uint32_t round = 0; round < 3000 && finished < 200; ++round) {
    const uint32_t which = random() % 6;
    Client& client = *clients[which];
    if (client.result) {
      ASSERT_EQ(client.result->token_ids, expected[which]) << "round " << round;
      ASSERT_EQ(client.result->finish_reason,
                expected[which].back() == 97 ? FinishReason::kStop : FinishReason::kLength);
      client.result.reset();
      expected[which].clear();
      ++finished;
    }
    if (expected[which].empty()) {
      std::vector<uint32_t> prompt = counting(0, 1 + (random() % 300));
      if (random() % 3 == 0) {
        prompt.assign(client.session.fed().begin(), client.session.fed().end());  // go on where the session is
        prompt.resize(std::min<size_t>(prompt.size(), 400));
        prompt.push_back(random() % 90);
      }
      for (uint32_t& id : prompt) {
        id %= 100;
      }
      const uint32_t limit = 1 + (random() % 30);
      uint32_t token = prompt.back();
      while (expected[which].size() < std::min<size_t>(limit, 512 - prompt.size())) {
        token = (token + 1) % 100;
        expected[which].push_back(token);
        if (token == 97) {
          break;
        }
      }
      client.start(fake, {.prompt = prompt, .max_tokens = limit});
    }
    fake.engine->scheduler().step();
    ASSERT_EQ(fake.record->violations, std::vector<std::string>{}) << "round " << round;
  }
  EXPECT_GE(finished, 200U);
}

TEST_P(SchedulerTest, ForkedSessionsGoTheirOwnWays) {
  FakeEngine fake(options(GetParam(), 3));
  Client parent(fake);
  parent.start(fake, {.prompt = counting(0, 90), .max_tokens = 1});
  run_all(fake);
  Result<Session> left = parent.session.fork();
  Result<Session> right = parent.session.fork();
  ASSERT_TRUE(left);
  ASSERT_TRUE(right);
  EXPECT_FALSE(parent.session.fork()) << "only three sequences fit";
  std::vector<uint32_t> prompt = counting(0, 90);
  prompt.push_back(7);
  const GenerateResult a = fake.run(left.value(), {.prompt = prompt, .max_tokens = 60});
  prompt.back() = 40;
  const GenerateResult b = fake.run(right.value(), {.prompt = prompt, .max_tokens = 5});
  prompt.back() = 90;
  const GenerateResult c = fake.run(parent.session, {.prompt = prompt, .max_tokens = 5});
  EXPECT_EQ(a.timings.cached_tokens, 90U);
  EXPECT_EQ(a.token_ids, counting(8, 60));
  EXPECT_EQ(b.token_ids, counting(41, 5));
  EXPECT_EQ(c.token_ids, counting(91, 5));
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST(Sessions, AreRefusedWhenAllSlotsAreTakenAndComeBackWhenClosed) {
  FakeEngine fake({.sequences = 2});
  Session first = fake.session();
  {
    Session second = fake.session();
    const auto third = fake.engine->open_session();
    ASSERT_FALSE(third);
    EXPECT_EQ(third.failure().kind, FailureKind::kBusy);
  }
  EXPECT_TRUE(fake.engine->open_session());
}

TEST(Sessions, GiveTheirBlocksBack) {
  FakeEngine fake({.context = 256});
  for (int i = 0; i < 5; ++i) {
    Session session = fake.session();
    EXPECT_EQ(fake.run(session, {.prompt = counting(0, 250 % 100), .max_tokens = 200}).token_ids.size(), 200U);
  }
  EXPECT_EQ(fake.record->violations, std::vector<std::string>{});
}

TEST(Sessions, MoveWithoutLosingTheirPlace) {
  FakeEngine fake({.sequences = 2});
  Session first = fake.session();
  fake.run(first, {.prompt = {1, 2}, .max_tokens = 1});
  Session moved = std::move(first);
  Session other = fake.session();
  other = std::move(moved);
  EXPECT_EQ(other.length(), 2U);
  EXPECT_TRUE(fake.engine->open_session()) << "the slot of the session that was assigned over is free";
}

}  // namespace
}  // namespace lily::test
