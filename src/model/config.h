// config.json, generation_config.json and the end-of-turn name of tokenizer_config.json: what they say, checked against
// what the kernels can run. Names the tensors nowhere (weights.cpp) and reads no tokenizer (text/).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/shape.h"

namespace lily {

/// What `quantization` says of one module; absent fields follow the block.
struct QuantizationOverride {
  bool quantised = true;  // `false` in the file: stored as plain bf16
  std::optional<uint32_t> bits;
  std::optional<uint32_t> group_size;
  std::string mode;  // empty: the block's
  bool operator==(const QuantizationOverride&) const = default;
};

/// The `quantization` block. The widths of the stored tensors decide; overrides that contradict them are refused.
struct Quantization {
  bool present = false;
  uint32_t bits = 4;
  uint32_t group_size = kQuantGroup;
  std::map<std::string, QuantizationOverride, std::less<>> overrides;  // by canonical module name (checkpoint.h)
};

/// Sampling defaults of generation_config.json; nullopt where the file is silent.
struct GenerationDefaults {
  std::optional<bool> do_sample;
  std::optional<float> temperature;
  std::optional<uint32_t> top_k;  // 0: no limit
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
};

struct ModelConfig {
  ModelShape shape;
  Quantization quantization;
  /// Every end-of-turn id of config.json, its text_config and generation_config.json, in that order, without repeats;
  /// all < vocab.
  std::vector<uint32_t> eos_ids;
  /// `eos_token` of tokenizer_config.json; the text layer turns it into an id and adds it to the set.
  std::optional<std::string> eos_token;
  GenerationDefaults generation;
  /// mtp_num_hidden_layers as written; whether an MTP head is there is decided by the tensors (ModelWeights::mtp).
  uint32_t mtp_layers = 0;
};

/// Refuses everything but a folder with a config.json, by what is there instead. Throws Error (kUnsupported, kIo).
void check_model_folder(const std::filesystem::path& folder);

/// Reads and checks the configuration of the checkpoint in `folder`. Throws Error (kConfig, kUnsupported, kIo) with one
/// sentence that names the key, the value found and what is supported.
ModelConfig load_config(const std::filesystem::path& folder);

}  // namespace lily
