// Reference outputs of a golden model (reference.json, reference.safetensors), and engines on the CPU to compare with
// them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/score.h"

namespace lily::test {

struct ReferencePrompt {
  std::vector<uint32_t> prompt_ids;
  std::vector<uint32_t> greedy_ids;
  std::vector<float> greedy_margins;
  std::vector<float> nll;  // of prompt tokens 1, 2, …
  double mean_nll = 0;

  /// The prompt and its greedy continuation.
  std::vector<uint32_t> all_ids() const;
};

struct Reference {
  explicit Reference(const std::filesystem::path& folder);
  const std::vector<float>& logits_last(size_t prompt) const;
  /// The residual stream before layer `index`, [tokens, hidden]; nullptr when the file has none for this prompt.
  const std::vector<float>* hidden(size_t prompt, uint32_t index) const;

  std::vector<ReferencePrompt> prompts;
  std::map<std::string, std::vector<float>, std::less<>> tensors;
};

std::filesystem::path demo_folder();
std::filesystem::path mini_folder();

/// What a test wants of an engine on the CPU.
struct CpuEngineOptions {
  std::filesystem::path model = demo_folder();
  ActivationType activation = ActivationType::kBf16;
  uint32_t sequences = 1;
  uint32_t context = 1280;
  uint32_t logit_rows = 64;
  uint32_t max_chunk = 512;
  bool capture_hidden = false;
  bool tokenizer = true;
  CpuOptions cpu = {};
};
std::unique_ptr<Engine> cpu_engine(const CpuEngineOptions& options);

/// A fresh session of the engine.
Session open(Engine& engine);

/// Logits of every token of a text, [tokens, vocab], fed in the given cuts (score.h).
std::vector<float> all_logits(Engine& engine, Session& session, std::span<const uint32_t> tokens,
                              const std::vector<uint32_t>& cuts = {});

}  // namespace lily::test
