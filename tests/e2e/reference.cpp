#include "tests/e2e/reference.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/model_runner.h"
#include "model/safetensors.h"

namespace lily::test {

std::vector<uint32_t> ReferencePrompt::all_ids() const {
  std::vector<uint32_t> ids = prompt_ids;
  ids.insert(ids.end(), greedy_ids.begin(), greedy_ids.end());
  return ids;
}

Reference::Reference(const std::filesystem::path& folder) {
  std::ifstream file(folder / "reference.json");
  for (const auto& entry : nlohmann::json::parse(file)) {
    ReferencePrompt& prompt = prompts.emplace_back();
    entry.at("prompt_ids").get_to(prompt.prompt_ids);
    entry.at("greedy_ids").get_to(prompt.greedy_ids);
    entry.at("greedy_margins").get_to(prompt.greedy_margins);
    entry.at("nll").get_to(prompt.nll);
    entry.at("mean_nll").get_to(prompt.mean_nll);
  }
  const SafetensorsFile stored(folder / "reference.safetensors");
  for (const StoredTensor& tensor : stored.tensors()) {
    LILY_CHECK(tensor.dtype == StoredDtype::kF32, "{} is {}", tensor.name, dtype_name(tensor.dtype));
    std::vector<float>& values = tensors[tensor.name];
    values.resize(tensor.data.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  }
}

const std::vector<float>& Reference::logits_last(size_t prompt) const {
  return tensors.at(fmt::format("{}.logits_last", prompt));
}

const std::vector<float>* Reference::hidden(size_t prompt, uint32_t index) const {
  const auto found = tensors.find(fmt::format("{}.hidden.{}", prompt, index));
  return found == tensors.end() ? nullptr : &found->second;
}

std::filesystem::path demo_folder() {
  return std::filesystem::path(LILY_SOURCE_DIR) / "models/demo";
}

std::filesystem::path mini_folder() {
  return std::filesystem::path(LILY_SOURCE_DIR) / "tests/golden/mini";
}

std::unique_ptr<Engine> cpu_engine(const CpuEngineOptions& options) {
  EngineOptions engine_options;
  engine_options.model = options.model;
  engine_options.activation = options.activation;
  engine_options.max_sequences = options.sequences;
  engine_options.context = options.context;
  engine_options.logit_rows = options.logit_rows;
  engine_options.max_chunk = options.max_chunk;
  engine_options.capture_hidden = options.capture_hidden;
  engine_options.load_tokenizer = options.tokenizer;
  CpuOptions cpu = options.cpu;
  cpu.threads = cpu.threads == 0 ? 2 : cpu.threads;
  return Engine::load(engine_options, make_cpu_backend(cpu));
}

Session open(Engine& engine) {
  return std::move(engine.open_session()).value();
}

std::vector<float> all_logits(Engine& engine, Session& session, std::span<const uint32_t> tokens,
                              const std::vector<uint32_t>& cuts) {
  std::vector<float> all;
  ScoreOptions options;
  options.cuts = cuts;
  options.on_logits = [&all](uint32_t, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
  };
  const auto scores = score(engine, session, tokens, options);
  LILY_CHECK(scores.ok(), "{}", scores.failure().message);
  return all;
}

}  // namespace lily::test
