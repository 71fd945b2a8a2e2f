// One value, one order: on the CPU a row's logits do not depend on how the text was cut, what ran beside it, how many
// threads worked, or what a session had done before. Compared bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "engine/model_runner.h"
#include "tests/e2e/reference.h"

namespace lily::test {
namespace {

/// Text with a long past: 449 prompt tokens and their continuation, shortened.
std::vector<uint32_t> sample_text(size_t prompt, size_t length) {
  static const Reference reference(demo_folder());
  std::vector<uint32_t> ids = reference.prompts.at(prompt).all_ids();
  ids.resize(std::min(ids.size(), length));
  return ids;
}

/// Index of the first value that differs in any bit, or -1.
std::ptrdiff_t first_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) {
    return 0;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return static_cast<std::ptrdiff_t>(i);
    }
  }
  return -1;
}

class BitsTest : public testing::TestWithParam<ActivationType> {
 protected:
  static CpuEngineOptions options() {
    CpuEngineOptions options;
    options.activation = GetParam();
    options.logit_rows = 320;
    options.sequences = 6;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(, BitsTest, testing::Values(ActivationType::kBf16, ActivationType::kF32),
                         [](const auto& each) { return each.param == ActivationType::kBf16 ? "bf16" : "f32"; });

TEST_P(BitsTest, EveryCutOfAPromptGivesTheSameLogitsAsDecoding) {
  const auto engine = cpu_engine(options());
  const std::vector<uint32_t> tokens = sample_text(7, 300);
  Session whole = open(*engine);
  const std::vector<float> expected = all_logits(*engine, whole, tokens);
  const std::vector<std::vector<uint32_t>> cuts = {
      {1},  {2},  {3},   {5},   {8},   {9},   {16},           {17},           {33},     {63},
      {64}, {65}, {128}, {129}, {192}, {255}, {1, 2, 4, 100}, {64, 1, 63, 7}, {299, 1}, {150}};
  for (const std::vector<uint32_t>& cut : cuts) {
    Session session = open(*engine);
    const std::vector<float> got = all_logits(*engine, session, tokens, cut);
    EXPECT_EQ(first_difference(got, expected), -1) << "cut of " << cut[0] << " rows";
  }
}

TEST_P(BitsTest, ThreadsDoNotMatter) {
  const std::vector<uint32_t> tokens = sample_text(8, 200);
  std::vector<std::vector<float>> logits;
  for (uint32_t threads = 1; threads <= 4; ++threads) {
    CpuEngineOptions with = options();
    with.cpu.threads = threads;
    const auto engine = cpu_engine(with);
    Session prefilled = open(*engine);
    logits.push_back(all_logits(*engine, prefilled, tokens));
    Session decoded = open(*engine);
    logits.push_back(all_logits(*engine, decoded, tokens, {150, 1}));
  }
  for (size_t i = 1; i < logits.size(); ++i) {
    EXPECT_EQ(first_difference(logits[i], logits[0]), -1) << "run " << i;
  }
}

TEST_P(BitsTest, AForkContinuesAsItsParentWould) {
  const auto engine = cpu_engine(options());
  const std::vector<uint32_t> tokens = sample_text(7, 200);
  const std::vector<uint32_t> other = sample_text(8, 200);
  const size_t vocab = engine->shape().vocab;
  Session alone = open(*engine);
  const std::vector<float> expected = all_logits(*engine, alone, tokens);
  for (const size_t at : {64U, 100U, 128U}) {
    Session parent = open(*engine);
    all_logits(*engine, parent, std::span(tokens).first(at));
    Result<Session> fork = parent.fork();
    ASSERT_TRUE(fork);
    all_logits(*engine, fork.value(), std::span(other).first(70));  // goes elsewhere, over the shared block
    const std::vector<float> rest = all_logits(*engine, parent, std::span(tokens).subspan(at));
    EXPECT_EQ(first_difference(rest, std::span(expected).subspan(at * vocab)), -1) << "parent of a fork at " << at;
    fork.value().reset();
    Result<Session> second = parent.fork();
    ASSERT_TRUE(second);
    const std::vector<float> a = all_logits(*engine, parent, std::span(other).first(3));
    const std::vector<float> b = all_logits(*engine, second.value(), std::span(other).first(3));
    EXPECT_EQ(first_difference(a, b), -1) << "parent and fork fed the same";
  }
}

TEST_P(BitsTest, AWarmSessionAnswersAsAFreshOne) {
  const auto engine = cpu_engine(options());
  const std::vector<uint32_t> tokens = sample_text(7, 150);
  Session fresh = open(*engine);
  const std::vector<float> expected = all_logits(*engine, fresh, tokens);
  fresh.reset();
  all_logits(*engine, fresh, sample_text(8, 300));
  fresh.reset();
  EXPECT_EQ(first_difference(all_logits(*engine, fresh, tokens), expected), -1);
}

/// One row of each sequence in one step.
std::vector<float> step_together(Engine& engine, std::vector<Session>& sessions, std::span<const uint32_t> tokens,
                                 PlanMode mode) {
  Step step;
  for (size_t i = 0; i < sessions.size(); ++i) {
    EXPECT_TRUE(sessions[i].reserve(1));
    Run run = sessions[i].next_run(1);
    run.first_row = step.rows();
    run.logit_rows = 1;
    step.runs.push_back(run);
    step.tokens.push_back(static_cast<int32_t>(tokens[i]));
  }
  engine.runner().wait(engine.runner().forward(mode, step));
  for (size_t i = 0; i < sessions.size(); ++i) {
    sessions[i].append(tokens.subspan(i, 1));
  }
  std::vector<float> logits;
  engine.runner().logits(0, static_cast<uint32_t>(sessions.size()), logits);
  return logits;
}

TEST_P(BitsTest, SequencesThatShareStepsDoNotChangeEachOther) {
  const auto engine = cpu_engine(options());
  const size_t vocab = engine->shape().vocab;
  // Five sequences of different pasts, so that their rows lie at different positions.
  std::vector<Session> sessions;
  std::vector<std::vector<uint32_t>> texts;
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < 5; ++i) {
    texts.push_back(sample_text(i % 2 == 0 ? 7 : 8, 90 + (i * 37)));
    Session alone = open(*engine);
    expected.push_back(all_logits(*engine, alone, texts[i]));
  }
  constexpr size_t kTogether = 30;
  for (size_t i = 0; i < 5; ++i) {
    sessions.push_back(open(*engine));
    all_logits(*engine, sessions[i], std::span(texts[i]).first(texts[i].size() - kTogether));
  }
  for (size_t step = 0; step < kTogether; ++step) {
    std::vector<uint32_t> tokens;
    tokens.reserve(texts.size());
    for (const std::vector<uint32_t>& text : texts) {
      tokens.push_back(text[text.size() - kTogether + step]);
    }
    const PlanMode mode = step % 5 == 4 ? PlanMode::kPrefill : PlanMode::kDecode;
    const std::vector<float> logits = step_together(*engine, sessions, tokens, mode);
    for (size_t i = 0; i < 5; ++i) {
      const size_t position = texts[i].size() - kTogether + step;
      ASSERT_EQ(first_difference(std::span(logits).subspan(i * vocab, vocab),
                                 std::span(expected[i]).subspan(position * vocab, vocab)),
                -1)
          << "sequence " << i << " step " << step;
    }
  }
}

TEST_P(BitsTest, PromptsThatShareAChunkDoNotChangeEachOther) {
  const auto engine = cpu_engine(options());
  const size_t vocab = engine->shape().vocab;
  std::vector<Session> sessions;
  Step step;
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < 4; ++i) {
    const std::vector<uint32_t> text = sample_text(i % 2 == 0 ? 7 : 8, 10 + (i * 31));
    const auto rows = static_cast<uint32_t>(text.size());
    {
      Session alone = open(*engine);
      expected.push_back(all_logits(*engine, alone, text));
    }
    sessions.push_back(open(*engine));
    ASSERT_TRUE(sessions[i].reserve(rows));
    lily::Run run = sessions[i].next_run(rows);
    run.first_row = step.rows();
    run.logit_rows = i == 1 ? 1 : rows;  // not every row of every run
    step.runs.push_back(run);
    for (const uint32_t token : text) {
      step.tokens.push_back(static_cast<int32_t>(token));
    }
  }
  engine->runner().wait(engine->runner().forward(PlanMode::kPrefill, step));
  uint32_t row = 0;
  for (size_t i = 0; i < 4; ++i) {
    const lily::Run& run = step.runs[i];
    std::vector<float> logits;
    engine->runner().logits(row, run.logit_rows, logits);
    row += run.logit_rows;
    EXPECT_EQ(first_difference(logits, std::span(expected[i]).subspan((run.rows - run.logit_rows) * vocab)), -1)
        << "sequence " << i;
  }
}

}  // namespace
}  // namespace lily::test
