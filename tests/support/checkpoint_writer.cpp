#include "tests/support/checkpoint_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/error.h"
#include "tests/support/quantise.h"
#include "tests/support/safetensors_edit.h"

namespace lily::test {
namespace {

namespace fs = std::filesystem;

/// splitmix64, with a cheap normal: fast enough to fill gigabytes, the same on every machine.
class Random {
 public:
  Random(uint64_t seed, std::string_view name) : state_(seed * 0x9e3779b97f4a7c15U) {
    for (const char c : name) {
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
  }

  uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-24F; }
  /// Sum of four 16-bit uniforms, scaled to variance 1; tails end at 3.46.
  float normal() {
    const uint64_t b = bits();
    const uint64_t sum = (b & 0xffffU) + ((b >> 16) & 0xffffU) + ((b >> 32) & 0xffffU) + (b >> 48);
    return (static_cast<float>(sum) - 131070.0F) * (1.7320508F / 65536.0F);
  }

 private:
  uint64_t state_;
};

using Writer = std::function<void(std::ostream&)>;

struct Spec {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  Writer write;
};

void put(std::ostream& out, const void* data, size_t bytes) {
  out.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

/// Lists every tensor of a checkpoint in module order, with a function that streams its data.
class Lister {
 public:
  explicit Lister(const CheckpointOptions& options) : options_(options), shape_(options.shape) {}

  std::vector<Spec> list() {
    if (options_.vision) {
      add_vision();
    }
    matrix("embed_tokens", shape_.vocab, shape_.hidden);
    for (uint32_t i = 0; i < shape_.layers(); ++i) {
      layer("layers." + std::to_string(i) + ".", shape_.layer_kinds[i]);
    }
    norm("norm.weight", shape_.hidden);
    matrix("lm_head", shape_.vocab, shape_.hidden);
    if (options_.mtp) {
      norm("mtp.pre_fc_norm_hidden.weight", shape_.hidden);
      norm("mtp.pre_fc_norm_embedding.weight", shape_.hidden);
      matrix("mtp.fc", shape_.hidden, 2 * shape_.hidden);
      layer("mtp.layers.0.", LayerKind::kAttention);
      norm("mtp.norm.weight", shape_.hidden);
    }
    return std::move(specs_);
  }

  /// Modules whose width is not the block's, as (stored name, bits).
  const std::vector<std::pair<std::string, uint32_t>>& overrides() const { return overrides_; }

 private:
  std::string stored_name(const std::string& canonical) const {
    const bool outside_model = canonical.starts_with("lm_head") || canonical.starts_with("mtp.");
    if (options_.prefix == NamePrefix::kModel) {
      return (outside_model ? "" : "model.") + canonical;
    }
    return (outside_model ? "language_model." : "language_model.model.") + canonical;
  }

  uint32_t bits_of(const std::string& module) const {
    const auto it = options_.module_bits.find(module);
    if (it != options_.module_bits.end()) {
      return it->second;
    }
    return module.ends_with("mlp.gate") || module.ends_with("shared_expert_gate") ? options_.gate_bits : options_.bits;
  }

  void matrix(const std::string& module, uint32_t rows, uint32_t cols, uint32_t experts = 0) {
    const uint32_t bits = bits_of(module);
    if (bits != options_.bits) {
      overrides_.emplace_back(stored_name(module), bits);
    }
    const uint64_t all_rows = uint64_t{rows} * std::max(experts, 1U);
    const auto shape = [&](uint64_t last) {
      return experts == 0 ? std::vector<uint64_t>{rows, last} : std::vector<uint64_t>{experts, rows, last};
    };
    // Scales and biases fall out while the codes are streamed; they wait here until their turn.
    struct Waiting {
      std::vector<Bf16> scales;
      std::vector<Bf16> biases;
    };
    auto waiting = std::make_shared<Waiting>();
    const uint64_t words = uint64_t{cols} * bits / 32;
    const uint64_t groups = cols / kQuantGroup;
    const auto codes = [=, seed = options_.seed](std::ostream& out) {
      Random random(seed, module);
      const float spread = 1.0F / std::sqrt(static_cast<float>(cols));
      std::vector<float> weights(cols);
      QuantisedRow row;
      for (uint64_t r = 0; r < all_rows; ++r) {
        std::generate(weights.begin(), weights.end(), [&] { return random.normal() * spread; });
        quantise_row(weights, bits, row);
        put(out, row.words.data(), row.words.size() * sizeof(uint32_t));
        waiting->scales.insert(waiting->scales.end(), row.scales.begin(), row.scales.end());
        waiting->biases.insert(waiting->biases.end(), row.biases.begin(), row.biases.end());
      }
    };
    const auto drain = [waiting](std::vector<Bf16> Waiting::*values) {
      return [waiting, values](std::ostream& out) {
        put(out, ((*waiting).*values).data(), ((*waiting).*values).size() * sizeof(Bf16));
        std::vector<Bf16>().swap((*waiting).*values);
      };
    };
    const std::string name = stored_name(module);
    specs_.push_back({name + ".weight", "U32", shape(words), all_rows * words * 4, codes});
    specs_.push_back({name + ".scales", "BF16", shape(groups), all_rows * groups * 2, drain(&Waiting::scales)});
    specs_.push_back({name + ".biases", "BF16", shape(groups), all_rows * groups * 2, drain(&Waiting::biases)});
  }

  void plain(const std::string& name, std::vector<uint64_t> shape, bool f32,
             const std::function<float(Random&)>& draw) {
    uint64_t count = 1;
    for (const uint64_t extent : shape) {
      count *= extent;
    }
    const auto write = [=, seed = options_.seed](std::ostream& out) {
      Random random(seed, name);
      for (uint64_t i = 0; i < count; ++i) {
        const Bf16 value = to_bf16(draw(random));
        const float wide = to_float(value);
        f32 ? put(out, &wide, sizeof(wide)) : put(out, &value, sizeof(value));
      }
    };
    specs_.push_back({stored_name(name), f32 ? "F32" : "BF16", std::move(shape), count * (f32 ? 4 : 2), write});
  }

  void norm(const std::string& name, uint32_t size) {
    // Gains stay within [0.5, 2), where subtracting one is exact in bf16, so both layouts hold the same gains.
    plain(name, {size}, false, [minus = options_.original_layout ? 1.0F : 0.0F](Random& random) {
      return to_float(to_bf16(std::clamp(1.0F + 0.1F * random.normal(), 0.6F, 1.4F))) - minus;
    });
  }

  void layer(const std::string& prefix, LayerKind kind) {
    if (kind == LayerKind::kLinear) {
      linear(prefix + "linear_attn.");
    } else {
      attention(prefix + "self_attn.");
    }
    norm(prefix + "input_layernorm.weight", shape_.hidden);
    norm(prefix + "post_attention_layernorm.weight", shape_.hidden);
    moe(prefix + "mlp.");
  }

  void linear(const std::string& prefix) {
    const uint64_t channels = shape_.conv_channels();
    const uint64_t width = shape_.conv_width;
    plain(prefix + "conv1d.weight",
          options_.original_layout ? std::vector<uint64_t>{channels, 1, width}
                                   : std::vector<uint64_t>{channels, width, 1},
          false, [](Random& random) { return 0.5F * random.normal(); });
    matrix(prefix + "in_proj_qkv", shape_.conv_channels(), shape_.hidden);
    matrix(prefix + "in_proj_z", shape_.value_dim(), shape_.hidden);
    matrix(prefix + "in_proj_b", shape_.value_heads, shape_.hidden);
    matrix(prefix + "in_proj_a", shape_.value_heads, shape_.hidden);
    // The usual initialisation: decay rates in [1, 16], time steps in [0.001, 0.1] through an inverse softplus.
    plain(prefix + "dt_bias", {shape_.value_heads}, false,
          [](Random& random) { return std::log(std::expm1(0.001F * std::pow(100.0F, random.uniform()))); });
    plain(prefix + "A_log", {shape_.value_heads}, options_.f32_decay,
          [](Random& random) { return std::log(1.0F + 15.0F * random.uniform()); });
    plain(prefix + "norm.weight", {shape_.value_head_dim}, options_.f32_decay,
          [](Random& random) { return 1.0F + 0.1F * random.normal(); });
    matrix(prefix + "out_proj", shape_.hidden, shape_.value_dim());
  }

  void attention(const std::string& prefix) {
    matrix(prefix + "q_proj", 2 * shape_.query_dim(), shape_.hidden);
    matrix(prefix + "k_proj", shape_.kv_dim(), shape_.hidden);
    matrix(prefix + "v_proj", shape_.kv_dim(), shape_.hidden);
    matrix(prefix + "o_proj", shape_.hidden, shape_.query_dim());
    norm(prefix + "q_norm.weight", shape_.head_dim);
    norm(prefix + "k_norm.weight", shape_.head_dim);
  }

  void moe(const std::string& prefix) {
    matrix(prefix + "gate", shape_.experts, shape_.hidden);
    matrix(prefix + "switch_mlp.gate_proj", shape_.expert_intermediate, shape_.hidden, shape_.experts);
    matrix(prefix + "switch_mlp.up_proj", shape_.expert_intermediate, shape_.hidden, shape_.experts);
    matrix(prefix + "switch_mlp.down_proj", shape_.hidden, shape_.expert_intermediate, shape_.experts);
    matrix(prefix + "shared_expert.gate_proj", shape_.shared_intermediate, shape_.hidden);
    matrix(prefix + "shared_expert.up_proj", shape_.shared_intermediate, shape_.hidden);
    matrix(prefix + "shared_expert.down_proj", shape_.hidden, shape_.shared_intermediate);
    matrix(prefix + "shared_expert_gate", 1, shape_.hidden);
  }

  void add_vision() {
    for (const char* name : {"vision_tower.patch_embed.proj.weight", "vision_tower.blocks.0.attn.qkv.weight"}) {
      specs_.push_back(
          {name, "BF16", {3, 5}, 30, [](std::ostream& out) { out.write(std::string(30, 'v').data(), 30); }});
    }
  }

  const CheckpointOptions& options_;
  const ModelShape& shape_;
  std::vector<Spec> specs_;
  std::vector<std::pair<std::string, uint32_t>> overrides_;
};

void write_shard(const fs::path& path, std::span<const Spec> specs, bool odd_data) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "mlx"}}}};
  uint64_t at = 0;
  for (const Spec& spec : specs) {
    header[spec.name] = {{"dtype", spec.dtype}, {"shape", spec.shape}, {"data_offsets", {at, at + spec.bytes}}};
    at += spec.bytes;
  }
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  const std::string text = framed_header(header.dump(), odd_data);
  put(out, text.data(), text.size());
  for (const Spec& spec : specs) {
    spec.write(out);
  }
  out.flush();
  LILY_CHECK(out.good(), "cannot write {}", path.string());
  LILY_CHECK(fs::file_size(path) == text.size() + at, "{} came out with {} bytes", path.string(), fs::file_size(path));
}

/// Where shard `index` of `shards` ends: at about its share of the bytes, moved on so that a triple is torn apart.
size_t shard_end(std::span<const Spec> specs, uint32_t index, uint32_t shards) {
  if (index + 1 == shards) {
    return specs.size();
  }
  uint64_t total = 0;
  for (const Spec& spec : specs) {
    total += spec.bytes;
  }
  uint64_t before = 0;
  size_t end = 0;
  while (end < specs.size() && (before < total * (index + 1) / shards || !specs[end].name.ends_with(".scales"))) {
    before += specs[end].bytes;
    ++end;
  }
  return end;
}

nlohmann::ordered_json text_config(const ModelShape& shape, bool mtp) {
  nlohmann::ordered_json types = nlohmann::ordered_json::array();
  for (const LayerKind kind : shape.layer_kinds) {
    types.push_back(kind == LayerKind::kLinear ? "linear_attention" : "full_attention");
  }
  return {{"model_type", "qwen3_5_moe_text"},
          {"vocab_size", shape.vocab},
          {"hidden_size", shape.hidden},
          {"num_hidden_layers", shape.layers()},
          {"layer_types", types},
          {"num_attention_heads", shape.query_heads},
          {"num_key_value_heads", shape.kv_heads},
          {"head_dim", shape.head_dim},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"attn_output_gate", true},
          {"max_position_embeddings", shape.max_positions},
          {"rms_norm_eps", static_cast<double>(shape.rms_eps)},
          {"tie_word_embeddings", false},
          {"rope_parameters",
           {{"rope_type", "default"},
            {"rope_theta", static_cast<double>(shape.rope_theta)},
            {"partial_rotary_factor", static_cast<double>(shape.rotary_dim) / shape.head_dim}}},
          {"linear_conv_kernel_dim", shape.conv_width},
          {"linear_key_head_dim", shape.key_head_dim},
          {"linear_value_head_dim", shape.value_head_dim},
          {"linear_num_key_heads", shape.key_heads},
          {"linear_num_value_heads", shape.value_heads},
          {"moe_intermediate_size", shape.expert_intermediate},
          {"shared_expert_intermediate_size", shape.shared_intermediate},
          {"num_experts", shape.experts},
          {"num_experts_per_tok", shape.experts_per_token},
          {"mtp_num_hidden_layers", mtp ? 1 : 0}};
}

void write_configs(const fs::path& folder, const CheckpointOptions& options, const Lister& lister) {
  nlohmann::ordered_json quantization = {{"group_size", kQuantGroup}, {"bits", options.bits}, {"mode", "affine"}};
  for (const auto& [module, bits] : lister.overrides()) {
    quantization[module] = {{"group_size", kQuantGroup}, {"bits", bits}};
  }
  const nlohmann::ordered_json config = {{"architectures", {"Qwen3_5MoeForConditionalGeneration"}},
                                         {"model_type", "qwen3_5_moe"},
                                         {"eos_token_id", {2, 0}},
                                         {"tie_word_embeddings", false},
                                         {"text_config", text_config(options.shape, options.mtp)},
                                         {"quantization", quantization},
                                         {"quantization_config", quantization}};
  write_text(folder / "config.json", config.dump(2));
  const nlohmann::ordered_json generation = {
      {"do_sample", true}, {"eos_token_id", {2, 0}}, {"temperature", 1.0}, {"top_k", 20}, {"top_p", 0.95}};
  write_text(folder / "generation_config.json", generation.dump(2));
}

ModelShape family_shape(uint32_t layers) {
  ModelShape shape;
  shape.rms_eps = 1e-6F;
  for (uint32_t i = 0; i < layers; ++i) {
    shape.layer_kinds.push_back(i % 4 == 3 ? LayerKind::kAttention : LayerKind::kLinear);
  }
  shape.head_dim = 256;
  shape.rotary_dim = 64;
  shape.rope_theta = 1e7F;
  shape.key_head_dim = 128;
  shape.value_head_dim = 128;
  shape.conv_width = 4;
  return shape;
}

}  // namespace

ModelShape tiny_shape() {
  ModelShape shape = family_shape(4);
  shape.hidden = 128;
  shape.vocab = 320;
  shape.max_positions = 4096;
  shape.query_heads = 4;
  shape.kv_heads = 1;
  shape.key_heads = 1;
  shape.value_heads = 2;
  shape.experts = 8;
  shape.experts_per_token = 2;
  shape.expert_intermediate = 64;
  shape.shared_intermediate = 64;
  return shape;
}

ModelShape shape_35b(uint32_t layers) {
  ModelShape shape = family_shape(layers);
  shape.hidden = 2048;
  shape.vocab = 248320;
  shape.max_positions = 262144;
  shape.query_heads = 16;
  shape.kv_heads = 2;
  shape.key_heads = 16;
  shape.value_heads = 32;
  shape.experts = 256;
  shape.experts_per_token = 8;
  shape.expert_intermediate = 512;
  shape.shared_intermediate = 512;
  return shape;
}

void write_checkpoint(const fs::path& folder, const CheckpointOptions& options) {
  LILY_CHECK(options.shards >= 1, "a checkpoint has at least one shard");
  fs::create_directories(folder);
  Lister lister(options);
  const std::vector<Spec> specs = lister.list();
  write_configs(folder, options, lister);
  size_t begin = 0;
  for (uint32_t i = 0; i < options.shards; ++i) {
    const size_t end = shard_end(specs, i, options.shards);
    const std::string name = options.shards == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, options.shards);
    write_shard(folder / name, std::span(specs).subspan(begin, end - begin), options.odd_data);
    begin = end;
  }
  rewrite_index(folder);
}

}  // namespace lily::test
