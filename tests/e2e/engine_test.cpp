// Loading and generating with the demo model.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/model_runner.h"
#include "tests/e2e/reference.h"
#include "text/tokenizer.h"

namespace lily::test {
namespace {

std::unique_ptr<Backend> one_thread() {
  CpuOptions options;
  options.threads = 1;
  return make_cpu_backend(options);
}

ErrorCode load_error(const EngineOptions& options, std::string& message) {
  try {
    Engine::load(options, one_thread());
  } catch (const Error& error) {
    message = error.what();
    return error.code();
  }
  return ErrorCode::kRuntime;
}

TEST(Load, ReportsProgressUpToTheLastByteAndKnowsItsMemory) {
  EngineOptions options;
  options.model = demo_folder();
  options.context = 512;
  uint64_t last = 0;
  uint64_t of = 0;
  const auto engine = Engine::load(options, one_thread(), [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, total);
    last = done;
    of = total;
  });
  EXPECT_EQ(last, of);
  EXPECT_GT(of, 10'000'000U);
  EXPECT_GT(engine->memory().weights_bytes, of / 2);
  EXPECT_EQ(engine->context_limit(), 512U);
  EXPECT_EQ(engine->vocabulary().stop_ids, (std::vector<uint32_t>{6067, 6069}));
  EXPECT_EQ(engine->default_sampling().top_k, 20);
}

TEST(Load, UsesTheModelsContextWhenNoneOrTooMuchIsAskedFor) {
  EngineOptions options;
  options.model = demo_folder();
  EXPECT_EQ(Engine::load(options, one_thread())->context_limit(), 4096U);
  options.context = 100'000;
  EXPECT_EQ(Engine::load(options, one_thread())->context_limit(), 4096U);
}

TEST(Load, RefusesAContextThatDoesNotFitWithTheNumbers) {
  EngineOptions options;
  options.model = demo_folder();
  options.memory_limit = 10'000'000;
  std::string message;
  EXPECT_EQ(load_error(options, message), ErrorCode::kMemory);
  EXPECT_NE(message.find("a context of 4096 tokens needs"), std::string::npos) << message;
  EXPECT_NE(message.find("10.0 MB"), std::string::npos) << message;
}

TEST(Load, RefusesOptionsOutsideTheirRange) {
  EngineOptions options;
  options.model = demo_folder();
  std::string message;
  options.max_sequences = 0;
  EXPECT_EQ(load_error(options, message), ErrorCode::kUsage);
  EXPECT_NE(message.find("max_sequences is 0"), std::string::npos);
  options.max_sequences = 1;
  options.max_chunk = 100;
  EXPECT_EQ(load_error(options, message), ErrorCode::kUsage);
  EXPECT_NE(message.find("max_chunk is 100"), std::string::npos);
}

TEST(Generate, GreedyFp32FollowsTheReferenceWhileItsChoiceIsClear) {
  const Reference reference(demo_folder());
  const auto engine = cpu_engine({.activation = ActivationType::kF32});
  uint32_t compared = 0;
  for (const ReferencePrompt& prompt : reference.prompts) {
    Session session = open(*engine);
    GenerateRequest request;
    request.prompt = prompt.prompt_ids;
    request.sampling.temperature = 0;
    request.max_tokens = static_cast<uint32_t>(prompt.greedy_ids.size());
    request.ignore_eos = true;
    const auto result = engine->generate(session, request);
    ASSERT_TRUE(result);
    for (size_t i = 0; i < prompt.greedy_ids.size() && prompt.greedy_margins[i] > 0.01F; ++i) {
      ASSERT_EQ(result.value().token_ids[i], prompt.greedy_ids[i]) << "token " << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 300U);
}

struct Client {
  Session session;
  std::optional<GenerateResult> result;
};

GenerateRequest request_for(size_t index, const Reference& reference) {
  GenerateRequest request;
  request.prompt = reference.prompts[index].prompt_ids;
  request.max_tokens = 40;
  request.sampling.seed = 100 + index;
  request.logprobs = true;
  if (index % 3 == 0) {
    request.sampling.temperature = 0;
  }
  if (index % 3 == 1) {
    request.sampling = {.temperature = 1.2, .presence_penalty = 0.5, .repetition_penalty = 1.2, .seed = 7};
  }
  return request;
}

TEST(Generate, AnswersAreTheSameAloneAndInABatchOfEight) {
  const Reference reference(demo_folder());
  const auto engine = cpu_engine({.sequences = 8});
  std::vector<GenerateResult> alone;
  for (size_t i = 0; i < 8; ++i) {
    Session session = open(*engine);
    alone.push_back(std::move(engine->generate(session, request_for(i, reference))).value());
    EXPECT_NE(alone.back().finish_reason, FinishReason::kError) << alone.back().error;
  }
  std::vector<std::unique_ptr<Client>> answers;
  for (size_t i = 0; i < 8; ++i) {
    answers.push_back(std::make_unique<Client>(Client{open(*engine), {}}));
    Client& answer = *answers.back();
    ASSERT_TRUE(engine->scheduler().add(answer.session, request_for(i, reference), {},
                                        [&answer](GenerateResult&& end) { answer.result = std::move(end); }));
  }
  while (engine->scheduler().step()) {
  }
  for (size_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(answers[i]->result);
    EXPECT_EQ(answers[i]->result->token_ids, alone[i].token_ids) << "request " << i;
    EXPECT_EQ(answers[i]->result->text, alone[i].text);
    for (size_t token = 0; token < alone[i].logprobs.size(); ++token) {
      EXPECT_EQ(answers[i]->result->logprobs[token].logprob, alone[i].logprobs[token].logprob);
    }
  }
}

TEST(Generate, AConversationContinuesWarmAsItWouldCold) {
  const Reference reference(demo_folder());
  const auto engine = cpu_engine({.sequences = 2});
  GenerateRequest request;
  request.prompt = reference.prompts[6].prompt_ids;
  request.sampling.temperature = 0;
  request.max_tokens = 20;
  Session warm = open(*engine);
  const GenerateResult first = engine->generate(warm, request).value();
  request.prompt.insert(request.prompt.end(), first.token_ids.begin(), first.token_ids.end());
  request.prompt.insert(request.prompt.end(), reference.prompts[1].prompt_ids.begin(),
                        reference.prompts[1].prompt_ids.end());
  request.logprobs = true;
  const GenerateResult second = engine->generate(warm, request).value();
  EXPECT_GE(second.timings.cached_tokens, reference.prompts[6].prompt_ids.size());
  Session cold = open(*engine);
  const GenerateResult fresh = engine->generate(cold, request).value();
  EXPECT_EQ(fresh.timings.cached_tokens, 0U);
  EXPECT_EQ(fresh.token_ids, second.token_ids);
  for (size_t i = 0; i < fresh.logprobs.size(); ++i) {
    EXPECT_EQ(fresh.logprobs[i].logprob, second.logprobs[i].logprob);
  }
}

TEST(Generate, ChatAnswersEndWithTheTurn) {
  const auto engine = cpu_engine({});
  GenerateRequest request;
  request.prompt = engine->tokenizer().encode(
      "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
      AddedTokens::kAllow);
  request.sampling.temperature = 0;
  request.max_tokens = 60;
  Session session = open(*engine);
  std::string streamed;
  const GenerateResult result =
      engine->generate(session, request, {.on_token = [&](const TokenEvent& event) { streamed += event.text; }})
          .value();
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  EXPECT_EQ(result.stop_id, 6069U);
  EXPECT_EQ(result.text, streamed);
  EXPECT_NE(result.text.find("Paris"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("<|im_end|>"), std::string::npos);
  EXPECT_GT(result.timings.prefill_ms, 0);
  EXPECT_EQ(result.timings.decode_tokens, result.token_ids.size() - 1);
}

TEST(Generate, TheMiniModelRunsWithoutATokenizer) {
  const auto engine = cpu_engine({.model = mini_folder(), .tokenizer = false});
  Session session = open(*engine);
  GenerateRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 8;
  request.ignore_eos = true;
  const GenerateResult result = engine->generate(session, request).value();
  EXPECT_EQ(result.token_ids.size(), 8U);
  EXPECT_EQ(result.text, "");
  request.stop_strings = {"x"};
  EXPECT_FALSE(engine->generate(session, request));
}

TEST(Generate, EndsWithAnErrorWhenEveryTokenIsBannedAndTheSessionGoesOn) {
  EngineOptions options;
  options.model = demo_folder();
  options.context = 128;
  const auto engine = Engine::load(options, one_thread());
  Session session = engine->open_session().value();
  GenerateRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4;
  for (uint32_t id = 0; id < engine->vocabulary().size; ++id) {
    request.sampling.logit_bias.emplace_back(id, -100.0);
  }
  for (const double temperature : {0.0, 1.0}) {
    request.sampling.temperature = temperature;
    const GenerateResult banned = engine->generate(session, request).value();
    EXPECT_EQ(banned.finish_reason, FinishReason::kError);
    EXPECT_NE(banned.error.find("banned"), std::string::npos) << banned.error;
    EXPECT_TRUE(banned.token_ids.empty());
  }
  request.sampling.logit_bias.clear();
  EXPECT_NE(engine->generate(session, request).value().finish_reason, FinishReason::kError);
}

}  // namespace
}  // namespace lily::test
