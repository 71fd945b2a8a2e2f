#include "model/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "model/json_fields.h"
#include "model/sampling_limits.h"
#include "model/tensor_names.h"

namespace lily {
namespace {

constexpr std::string_view kModelType = "qwen3_5_moe";
constexpr std::string_view kTextModelType = "qwen3_5_moe_text";

// What kernels fix at compile time.
constexpr uint32_t kHeadDim = 256;
constexpr uint32_t kLinearHeadDim = 128;
constexpr uint32_t kConvWidth = 4;
constexpr uint32_t kRotaryDim = 64;
constexpr uint32_t kMaxExperts = 512;
constexpr uint32_t kMaxExpertsPerToken = 16;

// Bounds far above any member of the family, low enough that no product of two of them overflows what holds it.
constexpr uint32_t kMaxWidth = 65'536;
constexpr uint32_t kMaxVocab = 4'194'304;
constexpr uint32_t kMaxLayers = 1'024;
constexpr uint32_t kMaxHeads = 256;
constexpr uint32_t kMaxPositions = 16'777'216;

/// A width that quantised matrices have as their input axis.
uint32_t grouped_width(const Fields& fields, std::string_view key, uint32_t high) {
  const uint32_t value = fields.uint(key, kQuantGroup, high);
  if (value % kQuantGroup != 0) {
    fields.refuse(key, fmt::format("a multiple of {}", kQuantGroup));
  }
  return value;
}

/// `small` divides `large`.
void check_divides(const Fields& fields, std::string_view large_key, uint32_t large, std::string_view small_key,
                   uint32_t small) {
  if (large % small != 0) {
    fields.refuse(large_key, fmt::format("a multiple of {} ({})", small_key, small));
  }
}

void refuse_unless_default_rope(const Fields& rope) {
  for (const std::string_view key : {"rope_type", "type"}) {
    if (rope.find(key) != nullptr && rope.find_string(key) != "default") {
      rope.refuse(key, "default: scaled rotary embeddings are not supported");
    }
  }
}

void read_rope(const Fields& text, ModelShape& shape) {
  // Older files keep theta and the factor at the top and call the object of scaled variants rope_scaling.
  const std::optional<Fields> rope = text.object("rope_parameters");
  const std::optional<Fields> scaling = text.object("rope_scaling");
  for (const std::optional<Fields>& each : {rope, scaling}) {
    if (each) {
      refuse_unless_default_rope(*each);
    }
  }
  const auto number = [&](std::string_view key, double low, double high) {
    std::optional<double> value = rope ? rope->find_number(key, low, high) : std::nullopt;
    value = value ? value : text.find_number(key, low, high);
    if (!value) {
      throw Error(ErrorCode::kConfig, "{}: {} is missing, there and in rope_parameters", text.where(), key);
    }
    return *value;
  };
  shape.rope_theta = static_cast<float>(number("rope_theta", 1.0, 1e12));
  const double rotary = number("partial_rotary_factor", 0.0, 1.0) * shape.head_dim;
  if (rotary != kRotaryDim) {
    throw Error(ErrorCode::kConfig, "{}: partial_rotary_factor turns {:g} dimensions of a head, supported are {}",
                text.where(), rotary, kRotaryDim);
  }
  shape.rotary_dim = kRotaryDim;
}

/// Plans are made of both kinds of layers.
void refuse_one_kind_alone(const Fields& text, const std::vector<LayerKind>& kinds) {
  const auto linear = std::count(kinds.begin(), kinds.end(), LayerKind::kLinear);
  const auto full = static_cast<std::ptrdiff_t>(kinds.size()) - linear;
  if (linear == 0 || full == 0) {
    throw Error(ErrorCode::kConfig,
                "{}: layer_types needs at least one linear_attention and one full_attention layer, found {} and {}",
                text.where(), linear, full);
  }
}

std::vector<LayerKind> read_layer_kinds(const Fields& text) {
  const uint32_t layers = text.uint("num_hidden_layers", 1, kMaxLayers);
  std::vector<LayerKind> kinds;
  const nlohmann::json* types = text.find("layer_types");
  if (types == nullptr) {
    const uint32_t interval = text.uint("full_attention_interval", 1, kMaxLayers);
    for (uint32_t i = 0; i < layers; ++i) {
      kinds.push_back(i % interval == interval - 1 ? LayerKind::kAttention : LayerKind::kLinear);
    }
    return kinds;
  }
  if (!types->is_array() || types->size() != layers) {
    text.refuse("layer_types", fmt::format("a list of {} (num_hidden_layers) items", layers));
  }
  for (const nlohmann::json& type : *types) {
    if (type == "linear_attention") {
      kinds.push_back(LayerKind::kLinear);
    } else if (type == "full_attention") {
      kinds.push_back(LayerKind::kAttention);
    } else {
      throw Error(ErrorCode::kConfig, "{}: layer_types names {}, supported are linear_attention and full_attention",
                  text.where(), shown(type));
    }
  }
  return kinds;
}

/// Switches that other members of the wider family set and that change the arithmetic.
void refuse_unsupported_switches(const Fields& top, const Fields& text) {
  const auto require_bool = [](const Fields& fields, std::string_view key, bool supported) {
    if (fields.find_bool(key).value_or(supported) != supported) {
      fields.refuse(key, supported ? "true" : "false");
    }
  };
  require_bool(top, "tie_word_embeddings", false);
  require_bool(text, "tie_word_embeddings", false);
  require_bool(text, "attention_bias", false);
  require_bool(text, "attn_output_gate", true);
  require_bool(text, "use_sliding_window", false);
  if (text.find_string("hidden_act").value_or("silu") != "silu") {
    text.refuse("hidden_act", "silu");
  }
  const std::string gate = text.find_string("output_gate_type").value_or("silu");
  if (gate != "silu" && gate != "swish") {
    text.refuse("output_gate_type", "silu or swish");
  }
  const nlohmann::json* dense_layers = text.find("mlp_only_layers");
  if (dense_layers != nullptr && !(dense_layers->is_array() && dense_layers->empty())) {
    text.refuse("mlp_only_layers", "an empty list");
  }
  if (text.find_uint("decoder_sparse_step", 0, UINT32_MAX).value_or(1) != 1) {
    text.refuse("decoder_sparse_step", "1");
  }
}

ModelShape read_shape(const Fields& text) {
  ModelShape shape;
  shape.hidden = grouped_width(text, "hidden_size", kMaxWidth);
  shape.vocab = grouped_width(text, "vocab_size", kMaxVocab);
  shape.max_positions = text.uint("max_position_embeddings", 1, kMaxPositions);
  const std::optional<double> eps = text.find_number("rms_norm_eps", 1e-12, 1e-2);
  if (!eps) {
    text.refuse("rms_norm_eps", "a number");
  }
  shape.rms_eps = static_cast<float>(*eps);
  shape.layer_kinds = read_layer_kinds(text);
  refuse_one_kind_alone(text, shape.layer_kinds);

  shape.query_heads = text.uint("num_attention_heads", 1, kMaxHeads);
  shape.kv_heads = text.uint("num_key_value_heads", 1, kMaxHeads);
  check_divides(text, "num_attention_heads", shape.query_heads, "num_key_value_heads", shape.kv_heads);
  shape.head_dim = text.uint("head_dim", kHeadDim, kHeadDim);
  read_rope(text, shape);

  shape.key_heads = text.uint("linear_num_key_heads", 1, kMaxHeads);
  shape.value_heads = text.uint("linear_num_value_heads", 1, kMaxHeads);
  check_divides(text, "linear_num_value_heads", shape.value_heads, "linear_num_key_heads", shape.key_heads);
  shape.key_head_dim = text.uint("linear_key_head_dim", kLinearHeadDim, kLinearHeadDim);
  shape.value_head_dim = text.uint("linear_value_head_dim", kLinearHeadDim, kLinearHeadDim);
  shape.conv_width = text.uint("linear_conv_kernel_dim", kConvWidth, kConvWidth);

  shape.experts = text.uint("num_experts", 1, kMaxExperts);
  shape.experts_per_token = text.uint("num_experts_per_tok", 1, kMaxExpertsPerToken);
  if (shape.experts_per_token > shape.experts) {
    text.refuse("num_experts_per_tok", fmt::format("at most num_experts ({})", shape.experts));
  }
  shape.expert_intermediate = grouped_width(text, "moe_intermediate_size", kMaxWidth);
  shape.shared_intermediate = grouped_width(text, "shared_expert_intermediate_size", kMaxWidth);
  return shape;
}

QuantizationOverride read_override(const Fields& block, const std::string& key, const nlohmann::json& value) {
  if (value.is_boolean()) {
    return {.quantised = value.get<bool>(), .bits = {}, .group_size = {}, .mode = {}};
  }
  const std::optional<Fields> fields = block.object(key);
  if (!fields) {
    return {};
  }
  return {.quantised = true,
          .bits = fields->find_uint("bits", 1, 32),
          .group_size = fields->find_uint("group_size", 1, kMaxWidth),
          .mode = fields->find_string("mode").value_or("")};
}

Quantization read_quantization(const Fields& top) {
  // MLX writes the same block under both names; other tools use the second for formats of their own.
  std::optional<Fields> block = top.object("quantization");
  block = block ? block : top.object("quantization_config");
  Quantization quantization;
  if (!block) {
    return quantization;
  }
  if (block->find("quant_method") != nullptr) {
    block->refuse("quant_method", "an MLX affine checkpoint, which has none");
  }
  quantization.present = true;
  if (block->find_string("mode").value_or("affine") != "affine") {
    block->refuse("mode", "affine (the only supported mode)");
  }
  quantization.group_size = block->uint("group_size", kQuantGroup, kQuantGroup);
  quantization.bits = block->uint("bits", 1, 32);
  if (quantization.bits != 4 && quantization.bits != 8) {
    block->refuse("bits", "4 or 8");
  }
  for (const auto& [key, value] : block->json().items()) {
    if (key == "group_size" || key == "bits" || key == "mode") {
      continue;
    }
    const QuantizationOverride read = read_override(*block, key, value);
    const auto [it, added] = quantization.overrides.emplace(canonical_name(key), read);
    if (!added && it->second != read) {
      throw Error(ErrorCode::kConfig, "{}: {} is described twice, differently", block->where(), key);
    }
  }
  return quantization;
}

/// Adds the ids under eos_token_id: a number, a list of numbers, null or nothing.
void add_eos_ids(const Fields& fields, uint32_t vocab, std::vector<uint32_t>& ids) {
  constexpr std::string_view kKey = "eos_token_id";
  const nlohmann::json* value = fields.find(kKey);
  if (value == nullptr) {
    return;
  }
  const nlohmann::json list = value->is_array() ? *value : nlohmann::json::array({*value});
  for (const nlohmann::json& each : list) {
    if (!each.is_number_unsigned()) {
      fields.refuse(kKey, "a token id or a list of token ids");
    }
    const uint64_t id = each.get<uint64_t>();
    if (id >= vocab) {
      log_warning("{}: {} names {}, outside the vocabulary of {}; ignored", fields.where(), kKey, id, vocab);
    } else if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
      ids.push_back(static_cast<uint32_t>(id));
    }
  }
}

std::optional<float> find_float(const Fields& fields, std::string_view key, const SamplingLimits& limits) {
  const std::optional<double> value = fields.find_number(key, limits.low, limits.high);
  return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

GenerationDefaults read_generation(const Fields& fields) {
  return {.do_sample = fields.find_bool("do_sample"),
          .temperature = find_float(fields, "temperature", kTemperatureLimits),
          .top_k = fields.find_uint("top_k", 0, static_cast<uint32_t>(kTopKLimits.high)),
          .top_p = find_float(fields, "top_p", kTopPLimits),
          .min_p = find_float(fields, "min_p", kMinPLimits),
          .repetition_penalty = find_float(fields, "repetition_penalty", kRepetitionPenaltyLimits),
          .presence_penalty = find_float(fields, "presence_penalty", kPresencePenaltyLimits)};
}

/// The name of the end-of-turn token: a string, or the object form with its text under "content".
std::optional<std::string> read_eos_token(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    return std::nullopt;
  }
  const nlohmann::json json = parse_json_object(path, ErrorCode::kConfig);
  const Fields fields(json, path.filename().string());
  const nlohmann::json* value = fields.find("eos_token");
  if (value != nullptr && value->is_object()) {
    return fields.object("eos_token")->find_string("content");
  }
  return fields.find_string("eos_token");
}

void check_model_type(const Fields& top, const Fields& text) {
  const std::string type = top.find_string("model_type").value_or("");
  if (type != kModelType && type != kTextModelType) {
    top.refuse("model_type", fmt::format("{} (Qwen3.6-35B-A3B and its relatives)", kModelType));
  }
  const std::string text_type = text.find_string("model_type").value_or(std::string(kTextModelType));
  if (text_type != kModelType && text_type != kTextModelType) {
    text.refuse("model_type", kTextModelType);
  }
}

}  // namespace

void check_model_folder(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  constexpr std::string_view kExpected =
      "expected the folder of an MLX 4-bit checkpoint of the qwen3_5_moe family (config.json, model*.safetensors)";
  std::error_code failed;
  const fs::file_status status = fs::status(folder, failed);
  if (status.type() == fs::file_type::not_found) {
    throw Error(ErrorCode::kIo, "{} does not exist, {}", folder.string(), kExpected);
  }
  if (failed) {
    throw Error(ErrorCode::kIo, "cannot look at {}: {}", folder.string(), failed.message());
  }
  if (!fs::is_directory(status)) {
    throw Error(ErrorCode::kUnsupported, "{} is a {}, {}", folder.string(),
                folder.extension() == ".gguf" ? "GGUF file" : "file", kExpected);
  }
  if (fs::exists(folder / "config.json", failed)) {
    return;
  }
  std::string found = "no config.json";
  fs::directory_iterator entries(folder, failed);
  if (failed) {
    throw Error(ErrorCode::kIo, "cannot list {}: {}", folder.string(), failed.message());
  }
  if (entries == fs::directory_iterator()) {
    found = "nothing (it is empty)";
  }
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().extension() == ".gguf") {
      found = fmt::format("the GGUF file {} and no config.json", entry.path().filename().string());
      break;
    }
  }
  throw Error(ErrorCode::kUnsupported, "{} holds {}, {}", folder.string(), found, kExpected);
}

ModelConfig load_config(const std::filesystem::path& folder) {
  check_model_folder(folder);
  const nlohmann::json json = parse_json_object(folder / "config.json", ErrorCode::kConfig);
  const Fields top(json, "config.json");
  // Text-only conversions write the keys of text_config at the top.
  const Fields text = top.object("text_config").value_or(top);
  check_model_type(top, text);

  ModelConfig config;
  config.quantization = read_quantization(top);
  refuse_unsupported_switches(top, text);
  config.shape = read_shape(text);
  config.mtp_layers = text.find_uint("mtp_num_hidden_layers", 0, kMaxLayers).value_or(0);

  add_eos_ids(top, config.shape.vocab, config.eos_ids);
  add_eos_ids(text, config.shape.vocab, config.eos_ids);
  const std::filesystem::path generation_path = folder / "generation_config.json";
  if (std::filesystem::exists(generation_path)) {
    const nlohmann::json generation_json = parse_json_object(generation_path, ErrorCode::kConfig);
    const Fields generation(generation_json, "generation_config.json");
    add_eos_ids(generation, config.shape.vocab, config.eos_ids);
    config.generation = read_generation(generation);
  }
  config.eos_token = read_eos_token(folder / "tokenizer_config.json");
  return config;
}

}  // namespace lily
