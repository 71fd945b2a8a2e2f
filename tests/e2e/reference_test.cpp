// The golden models against outputs of another implementation in fp32, and the demo model's default arithmetic against
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/model_runner.h"
#include "tests/e2e/reference.h"
#include "text/tokenizer.h"

namespace lily::test {
namespace {

constexpr uint32_t kLongest = 1152;  // tokens of the longest prompt with its continuation, rounded up

struct Model {
  std::string name;
  std::filesystem::path folder;
  bool tokenizer;
};

struct Cut {
  std::string name;
  std::vector<uint32_t> rows;
};

CpuEngineOptions options_for(const Model& model, ActivationType activation) {
  return {.model = model.folder,
          .activation = activation,
          .logit_rows = kLongest,
          .max_chunk = kLongest,
          .tokenizer = model.tokenizer};
}

/// Positions whose prediction the reference knows: the last prompt token and all but the last greedy one.
void expect_same_argmax(const ReferencePrompt& prompt, const std::vector<PositionScore>& scores, float margin) {
  for (size_t i = 0; i < prompt.greedy_ids.size(); ++i) {
    if (prompt.greedy_margins[i] > margin) {
      EXPECT_EQ(scores[prompt.prompt_ids.size() - 1 + i].argmax, prompt.greedy_ids[i])
          << "greedy token " << i << ", margin " << prompt.greedy_margins[i];
    }
  }
}

class Fp32Test : public testing::TestWithParam<std::tuple<Model, Cut>> {};
INSTANTIATE_TEST_SUITE_P(, Fp32Test,
                         testing::Combine(testing::Values(Model{"mini", mini_folder(), false},
                                                          Model{"demo", demo_folder(), true}),
                                          testing::Values(Cut{"OnePiece", {}}, Cut{"OddChunks", {7, 61, 130, 3, 33}},
                                                          Cut{"TokenByToken", {1}})),
                         [](const auto& each) { return std::get<0>(each.param).name + std::get<1>(each.param).name; });

TEST_P(Fp32Test, LogitsLikelihoodsAndArgmaxAgreeWithTheReference) {
  const auto& [model, cut] = GetParam();
  const Reference reference(model.folder);
  const auto engine = cpu_engine(options_for(model, ActivationType::kF32));
  const size_t vocab = engine->shape().vocab;
  float worst_logit = 0;
  float worst_nll = 0;
  for (size_t index = 0; index < reference.prompts.size(); ++index) {
    SCOPED_TRACE("prompt " + std::to_string(index));
    const ReferencePrompt& prompt = reference.prompts[index];
    const size_t last = prompt.prompt_ids.size() - 1;
    std::vector<float> last_logits;
    ScoreOptions options;
    options.cuts = cut.rows;
    options.on_logits = [&](uint32_t first, std::span<const float> logits) {
      const size_t rows = logits.size() / vocab;
      if (first <= last && last < first + rows) {
        const auto row = logits.subspan((last - first) * vocab, vocab);
        last_logits.assign(row.begin(), row.end());
      }
    };
    Session session = open(*engine);
    const auto scored = score(*engine, session, prompt.all_ids(), options);
    ASSERT_TRUE(scored) << scored.failure().message;
    const std::vector<float>& expected = reference.logits_last(index);
    ASSERT_EQ(last_logits.size(), expected.size());
    for (size_t id = 0; id < vocab; ++id) {
      worst_logit = std::max(worst_logit, std::abs(last_logits[id] - expected[id]));
    }
    for (size_t i = 0; i < prompt.nll.size(); ++i) {
      worst_nll = std::max(worst_nll, std::abs(scored.value()[i].nll - prompt.nll[i]));
    }
    expect_same_argmax(prompt, scored.value(), 0.01F);
  }
  EXPECT_LE(worst_logit, 2e-3F);
  EXPECT_LE(worst_nll, 2e-3F);
  RecordProperty("worst_logit", std::to_string(worst_logit));
  RecordProperty("worst_nll", std::to_string(worst_nll));
}

/// x · rsqrt(mean(x²) + eps) · gain, as the last entry of the reference has it.
std::vector<float> final_norm(std::span<const float> rows, const ModelShape& shape, const PlainTensor& gain) {
  std::vector<float> out;
  for (size_t row = 0; row < rows.size() / shape.hidden; ++row) {
    const auto x = rows.subspan(row * shape.hidden, shape.hidden);
    double squares = 0;
    for (const float value : x) {
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const double scale = 1.0 / std::sqrt(squares / shape.hidden + static_cast<double>(shape.rms_eps));
    for (size_t i = 0; i < shape.hidden; ++i) {
      out.push_back(static_cast<float>(static_cast<double>(x[i]) * scale * static_cast<double>(gain.at(i))));
    }
  }
  return out;
}

class HiddenTest : public testing::TestWithParam<Model> {};
INSTANTIATE_TEST_SUITE_P(, HiddenTest,
                         testing::Values(Model{"mini", mini_folder(), false}, Model{"demo", demo_folder(), true}),
                         [](const auto& each) { return each.param.name; });

TEST_P(HiddenTest, EveryLayerAgreesWithTheReferenceInFp32) {
  const Reference reference(GetParam().folder);
  CpuEngineOptions options = options_for(GetParam(), ActivationType::kF32);
  options.capture_hidden = true;
  const auto engine = cpu_engine(options);
  const ModelWeights weights = load_weights(GetParam().folder);
  const ModelShape& shape = engine->shape();
  uint32_t compared = 0;
  for (const std::vector<uint32_t>& cuts : std::vector<std::vector<uint32_t>>{{}, {1}, {3, 2}}) {
    for (size_t index = 0; index < reference.prompts.size(); ++index) {
      if (reference.hidden(index, 0) == nullptr) {
        continue;
      }
      const std::vector<uint32_t>& tokens = reference.prompts[index].prompt_ids;
      std::vector<std::vector<float>> streams(shape.layers() + 1);
      ScoreOptions score_options;
      score_options.cuts = cuts;
      score_options.on_hidden = [&](uint32_t, uint32_t rows, std::span<const float> hidden) {
        for (uint32_t layer = 0; layer <= shape.layers(); ++layer) {
          const auto part = hidden.subspan(size_t{layer} * rows * shape.hidden, size_t{rows} * shape.hidden);
          streams[layer].insert(streams[layer].end(), part.begin(), part.end());
        }
      };
      Session session = open(*engine);
      ASSERT_TRUE(score(*engine, session, tokens, score_options));
      streams.back() = final_norm(streams.back(), shape, weights.final_norm());
      for (uint32_t layer = 0; layer <= shape.layers(); ++layer) {
        const std::vector<float>& expected = *reference.hidden(index, layer);
        ASSERT_EQ(streams[layer].size(), expected.size());
        double squares = 0;
        float worst = 0;
        for (size_t i = 0; i < expected.size(); ++i) {
          squares += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
          worst = std::max(worst, std::abs(streams[layer][i] - expected[i]));
        }
        const double scale = std::sqrt(squares / static_cast<double>(expected.size()));
        EXPECT_LE(static_cast<double>(worst), 1e-3 * scale) << "before layer " << layer;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 3 * (shape.layers() + 1));
}

TEST(DefaultArithmetic, TheDemoModelKeepsClearDecisionsAndLikelihoods) {
  const Reference reference(demo_folder());
  const auto engine = cpu_engine(options_for({"demo", demo_folder(), true}, ActivationType::kBf16));
  for (size_t index = 0; index < reference.prompts.size(); ++index) {
    SCOPED_TRACE("prompt " + std::to_string(index));
    const ReferencePrompt& prompt = reference.prompts[index];
    Session session = open(*engine);
    const auto scored = score(*engine, session, prompt.all_ids());
    ASSERT_TRUE(scored);
    expect_same_argmax(prompt, scored.value(), 0.5F);
    double mean = 0;
    for (size_t i = 0; i < prompt.nll.size(); ++i) {
      mean += static_cast<double>(scored.value()[i].nll) / static_cast<double>(prompt.nll.size());
    }
    EXPECT_NEAR(mean, prompt.mean_nll, 0.02);
  }
}

TEST(DefaultArithmetic, PerplexityOfAnUnseenStoryIsThatOfFp32) {
  std::ifstream file(std::filesystem::path(LILY_SOURCE_DIR) / "tests/golden/validation.txt");
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_GT(text.str().size(), 10'000U);
  std::vector<double> results;
  for (const ActivationType activation : {ActivationType::kF32, ActivationType::kBf16}) {
    const auto engine = cpu_engine({.activation = activation, .logit_rows = 128});
    const std::vector<uint32_t> tokens = engine->tokenizer().encode(text.str(), AddedTokens::kForbid);
    const auto result = perplexity(*engine, tokens, 1024);
    ASSERT_TRUE(result) << result.failure().message;
    EXPECT_EQ(result.value().scored_tokens, tokens.size() / 1024 * 1023);
    results.push_back(result.value().perplexity);
  }
  EXPECT_NEAR(results[1] / results[0], 1.0, 0.003) << results[0] << " and " << results[1];
  RecordProperty("perplexity_f32", std::to_string(results[0]));
  RecordProperty("perplexity_bf16", std::to_string(results[1]));
}

}  // namespace
}  // namespace lily::test
