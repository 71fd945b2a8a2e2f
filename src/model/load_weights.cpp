// Finds every tensor of the network in a checkpoint and checks its width, dtype and shape against the config; refuses
// what is missing, what does not fit and what is left over.
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "model/checkpoint.h"
#include "model/tensor_names.h"
#include "model/weights.h"

namespace lily {
namespace {

constexpr std::string_view kSupportedQuantisation =
    "MLX affine with 4 or 8 bits, U32 codes, BF16 scales and biases, groups of 64";

/// Where the norms' one is: converters that move the conv taps to [C, 4, 1] also add one to the norms.
enum class Layout { kConverted, kOriginal };

/// Axes of a quantised matrix; experts == 0 for a plain one.
struct MatrixShape {
  uint32_t rows = 0;
  uint32_t cols = 0;
  uint32_t experts = 0;

  /// The stored shape with `last` as its last axis.
  std::vector<uint64_t> stored(uint64_t last) const {
    return experts == 0 ? std::vector<uint64_t>{rows, last} : std::vector<uint64_t>{experts, rows, last};
  }
};

class Binder {
 public:
  Binder(const Checkpoint& checkpoint, const ModelConfig& config)
      : checkpoint_(checkpoint), config_(config), shape_(config.shape), layout_(detect_layout()) {}

  ModelWeights::Parts bind();

 private:
  Layout detect_layout() const;
  const CheckpointTensor* find(const std::string& name);
  const CheckpointTensor& need(const std::string& name);
  QuantTensor quant(const std::string& module, const MatrixShape& shape);
  uint32_t code_bits(const std::string& module, const CheckpointTensor& codes, const MatrixShape& shape) const;
  void check_override(const std::string& module, uint32_t bits) const;
  const std::byte* group_values(const std::string& module, std::string_view leaf, const MatrixShape& shape);
  PlainTensor plain(const std::string& name, std::vector<uint32_t> shape, bool or_f32 = false);
  PlainTensor gain(const std::string& name, uint32_t size);
  PlainTensor conv(const std::string& name);
  LayerWeights layer(const std::string& prefix, LayerKind kind);
  LinearLayer linear(const std::string& prefix);
  AttentionLayer attention(const std::string& prefix);
  MoeWeights moe(const std::string& prefix);
  std::optional<MtpWeights> mtp();
  MtpWeights mtp_head();
  void refuse_unused() const;

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const ModelShape& shape_;
  Layout layout_;
  std::set<std::string, std::less<>> used_;
  uint64_t bytes_ = 0;
};

std::string in_shard(const CheckpointTensor& tensor) {
  return fmt::format("(in {})", tensor.shard->name());
}

Layout Binder::detect_layout() const {
  std::optional<Layout> layout;
  std::string first;
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    const std::vector<uint64_t>& shape = tensor.stored->shape;
    if (!name.ends_with(".linear_attn.conv1d.weight") || shape.size() != 3) {
      continue;
    }
    const Layout found = shape[2] == 1 ? Layout::kConverted : Layout::kOriginal;
    if (!layout) {
      layout = found;
      first = fmt::format("{} {}", display_name(name), shape_text(shape));
    } else if (*layout != found) {
      throw Error(ErrorCode::kCheckpoint,
                  "conv layouts are mixed: {}, but {} {}; whether norms hold their one is then undecided", first,
                  display_name(name), shape_text(shape));
    }
  }
  return layout.value_or(Layout::kConverted);
}

const CheckpointTensor* Binder::find(const std::string& name) {
  const auto it = checkpoint_.tensors().find(name);
  if (it == checkpoint_.tensors().end()) {
    return nullptr;
  }
  if (used_.insert(name).second) {
    bytes_ += it->second.stored->data.size();
  }
  return &it->second;
}

const CheckpointTensor& Binder::need(const std::string& name) {
  const CheckpointTensor* tensor = find(name);
  if (tensor == nullptr) {
    const std::string shard = checkpoint_.unindexed_in(name);
    throw Error(ErrorCode::kCheckpoint, "the tensor {} ({}) is missing from {}{}", name, display_name(name),
                checkpoint_.folder().string(),
                shard.empty() ? "" : fmt::format(": it lies in {}, but the index does not list it", shard));
  }
  return *tensor;
}

void Binder::check_override(const std::string& module, uint32_t bits) const {
  const auto it = config_.quantization.overrides.find(module);
  if (it == config_.quantization.overrides.end()) {
    return;
  }
  const QuantizationOverride& said = it->second;
  if (!said.quantised) {
    throw Error(ErrorCode::kCheckpoint, "{}: config.json says it is not quantised, but its codes are {} bits wide",
                display_name(module), bits);
  }
  if (said.bits && *said.bits != bits) {
    throw Error(ErrorCode::kCheckpoint, "{}: config.json says {} bits, but its codes are {} bits wide",
                display_name(module), *said.bits, bits);
  }
  if (said.group_size && *said.group_size != kQuantGroup) {
    throw Error(ErrorCode::kUnsupported, "{}: config.json says groups of {}, supported are groups of {}",
                display_name(module), *said.group_size, kQuantGroup);
  }
  if (!said.mode.empty() && said.mode != "affine") {
    throw Error(ErrorCode::kUnsupported, "{}: config.json says mode {}, supported is affine", display_name(module),
                said.mode);
  }
}

uint32_t Binder::code_bits(const std::string& module, const CheckpointTensor& codes, const MatrixShape& shape) const {
  const StoredTensor& stored = *codes.stored;
  if (stored.dtype != StoredDtype::kU32) {
    throw Error(ErrorCode::kUnsupported, "{}: codes are {}, expected U32 ({}) {}", display_name(module),
                dtype_name(stored.dtype), kSupportedQuantisation, in_shard(codes));
  }
  const uint64_t packed = stored.shape.empty() ? 0 : stored.shape.back();
  if (stored.shape != shape.stored(packed) || packed == 0 || packed > shape.cols || packed * 32 % shape.cols != 0) {
    throw Error(ErrorCode::kCheckpoint, "{}: codes are {}, expected {} (4 bits) or {} (8 bits) {}",
                display_name(module), shape_text(stored.shape), shape_text(shape.stored(shape.cols / 8)),
                shape_text(shape.stored(shape.cols / 4)), in_shard(codes));
  }
  const auto bits = static_cast<uint32_t>(packed * 32 / shape.cols);
  check_override(module, bits);
  if (bits != 4 && bits != 8) {
    throw Error(ErrorCode::kUnsupported, "{}: codes are {} bits wide, supported are 4 and 8 {}", display_name(module),
                bits, in_shard(codes));
  }
  return bits;
}

const std::byte* Binder::group_values(const std::string& module, std::string_view leaf, const MatrixShape& shape) {
  const CheckpointTensor& tensor = need(fmt::format("{}.{}", module, leaf));
  const StoredTensor& stored = *tensor.stored;
  if (stored.dtype != StoredDtype::kBf16) {
    throw Error(ErrorCode::kUnsupported, "{}: {} are {}, expected BF16 ({}) {}", display_name(module), leaf,
                dtype_name(stored.dtype), kSupportedQuantisation, in_shard(tensor));
  }
  const std::vector<uint64_t> expected = shape.stored(shape.cols / kQuantGroup);
  if (stored.shape != expected) {
    const uint64_t groups = stored.shape.empty() ? 0 : stored.shape.back();
    const bool other_group = groups != 0 && stored.shape == shape.stored(groups) && shape.cols % groups == 0;
    throw Error(
        ErrorCode::kCheckpoint, "{}: {} are {}, expected {}{} {}", display_name(module), leaf, shape_text(stored.shape),
        shape_text(expected),
        other_group ? fmt::format(": groups of {}, supported are groups of {}", shape.cols / groups, kQuantGroup) : "",
        in_shard(tensor));
  }
  return stored.data.data();
}

QuantTensor Binder::quant(const std::string& module, const MatrixShape& shape) {
  const CheckpointTensor& codes = need(module + ".weight");
  if (codes.stored->dtype != StoredDtype::kU32 && !checkpoint_.tensors().contains(module + ".scales")) {
    throw Error(ErrorCode::kUnsupported, "{}: not quantised ({} {}), expected {} {}", display_name(module),
                dtype_name(codes.stored->dtype), shape_text(codes.stored->shape), kSupportedQuantisation,
                in_shard(codes));
  }
  QuantTensor tensor{.name = module, .experts = std::max(shape.experts, 1U), .rows = shape.rows, .cols = shape.cols};
  tensor.bits = code_bits(module, codes, shape);
  tensor.codes = codes.stored->data.data();
  tensor.scales = group_values(module, "scales", shape);
  tensor.biases = group_values(module, "biases", shape);
  return tensor;
}

PlainTensor Binder::plain(const std::string& name, std::vector<uint32_t> shape, bool or_f32) {
  const CheckpointTensor& tensor = need(name);
  const StoredTensor& stored = *tensor.stored;
  const bool is_f32 = or_f32 && stored.dtype == StoredDtype::kF32;
  if (stored.dtype != StoredDtype::kBf16 && !is_f32) {
    throw Error(ErrorCode::kUnsupported, "{}: dtype is {}, expected {} {}", display_name(name),
                dtype_name(stored.dtype), or_f32 ? "BF16 or F32" : "BF16", in_shard(tensor));
  }
  const std::vector<uint64_t> expected(shape.begin(), shape.end());
  if (stored.shape != expected) {
    throw Error(ErrorCode::kCheckpoint, "{}: shape is {}, expected {} {}", display_name(name), shape_text(stored.shape),
                shape_text(expected), in_shard(tensor));
  }
  return {.name = name,
          .dtype = is_f32 ? PlainTensor::Dtype::kF32 : PlainTensor::Dtype::kBf16,
          .shape = std::move(shape),
          .data = stored.data.data()};
}

PlainTensor Binder::gain(const std::string& name, uint32_t size) {
  PlainTensor tensor = plain(name, {size});
  tensor.shift_by_one = layout_ == Layout::kOriginal;
  return tensor;
}

PlainTensor Binder::conv(const std::string& name) {
  // [C, 4, 1] and [C, 1, 4] are the same bytes.
  const uint32_t channels = shape_.conv_channels();
  const uint32_t width = shape_.conv_width;
  PlainTensor tensor =
      layout_ == Layout::kOriginal ? plain(name, {channels, 1, width}) : plain(name, {channels, width, 1});
  tensor.shape = {channels, width};
  return tensor;
}

LinearLayer Binder::linear(const std::string& prefix) {
  const uint32_t hidden = shape_.hidden;
  return {.in_proj_qkv = quant(prefix + "in_proj_qkv", {shape_.conv_channels(), hidden}),
          .in_proj_z = quant(prefix + "in_proj_z", {shape_.value_dim(), hidden}),
          .in_proj_a = quant(prefix + "in_proj_a", {shape_.value_heads, hidden}),
          .in_proj_b = quant(prefix + "in_proj_b", {shape_.value_heads, hidden}),
          .out_proj = quant(prefix + "out_proj", {hidden, shape_.value_dim()}),
          .conv = conv(prefix + "conv1d.weight"),
          .a_log = plain(prefix + "A_log", {shape_.value_heads}, true),
          .dt_bias = plain(prefix + "dt_bias", {shape_.value_heads}),
          .norm = plain(prefix + "norm.weight", {shape_.value_head_dim}, true)};
}

AttentionLayer Binder::attention(const std::string& prefix) {
  const uint32_t hidden = shape_.hidden;
  return {.q_proj = quant(prefix + "q_proj", {2 * shape_.query_dim(), hidden}),
          .k_proj = quant(prefix + "k_proj", {shape_.kv_dim(), hidden}),
          .v_proj = quant(prefix + "v_proj", {shape_.kv_dim(), hidden}),
          .o_proj = quant(prefix + "o_proj", {hidden, shape_.query_dim()}),
          .q_norm = gain(prefix + "q_norm.weight", shape_.head_dim),
          .k_norm = gain(prefix + "k_norm.weight", shape_.head_dim)};
}

MoeWeights Binder::moe(const std::string& prefix) {
  const uint32_t hidden = shape_.hidden;
  const uint32_t inner = shape_.expert_intermediate;
  const uint32_t shared = shape_.shared_intermediate;
  return {.router = quant(prefix + "gate", {shape_.experts, hidden}),
          .expert_gate = quant(prefix + "switch_mlp.gate_proj", {inner, hidden, shape_.experts}),
          .expert_up = quant(prefix + "switch_mlp.up_proj", {inner, hidden, shape_.experts}),
          .expert_down = quant(prefix + "switch_mlp.down_proj", {hidden, inner, shape_.experts}),
          .shared_gate = quant(prefix + "shared_expert_gate", {1, hidden}),
          .shared_gate_proj = quant(prefix + "shared_expert.gate_proj", {shared, hidden}),
          .shared_up_proj = quant(prefix + "shared_expert.up_proj", {shared, hidden}),
          .shared_down_proj = quant(prefix + "shared_expert.down_proj", {hidden, shared})};
}

LayerWeights Binder::layer(const std::string& prefix, LayerKind kind) {
  LayerWeights weights;
  weights.input_norm = gain(prefix + "input_layernorm.weight", shape_.hidden);
  weights.post_norm = gain(prefix + "post_attention_layernorm.weight", shape_.hidden);
  if (kind == LayerKind::kLinear) {
    weights.mixer = linear(prefix + "linear_attn.");
  } else {
    weights.mixer = attention(prefix + "self_attn.");
  }
  weights.moe = moe(prefix + "mlp.");
  return weights;
}

MtpWeights Binder::mtp_head() {
  return {.fc = quant("mtp.fc", {shape_.hidden, 2 * shape_.hidden}),
          .embedding_norm = gain("mtp.pre_fc_norm_embedding.weight", shape_.hidden),
          .hidden_norm = gain("mtp.pre_fc_norm_hidden.weight", shape_.hidden),
          .final_norm = gain("mtp.norm.weight", shape_.hidden),
          .layer = layer("mtp.layers.0.", LayerKind::kAttention)};
}

std::optional<MtpWeights> Binder::mtp() {
  const auto& tensors = checkpoint_.tensors();
  const auto is_mtp = [](const auto& entry) { return is_mtp_tensor(entry.first); };
  const auto held = static_cast<size_t>(std::count_if(tensors.begin(), tensors.end(), is_mtp));
  if (held == 0) {
    return std::nullopt;
  }
  // The head only speeds decoding up, so one in another layout is no reason to refuse the model.
  const uint64_t trunk_bytes = bytes_;
  const size_t trunk_used = used_.size();
  try {
    MtpWeights head = mtp_head();
    if (used_.size() - trunk_used == held) {
      return head;
    }
    log_info("the MTP head is not used: {} of its {} tensors are not known", held - (used_.size() - trunk_used), held);
  } catch (const Error& error) {
    log_info("the MTP head is not used: {}", error.what());
  }
  bytes_ = trunk_bytes;
  return std::nullopt;
}

void Binder::refuse_unused() const {
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (!used_.contains(name) && !is_mtp_tensor(name)) {
      throw Error(ErrorCode::kCheckpoint, "the tensor {} {} has no place in a model of {} layers with this config",
                  tensor.stored->name, in_shard(tensor), shape_.layers());
    }
  }
}

ModelWeights::Parts Binder::bind() {
  ModelWeights::Parts parts;
  parts.config = config_;
  parts.embed = quant("embed_tokens", {shape_.vocab, shape_.hidden});
  parts.lm_head = quant("lm_head", {shape_.vocab, shape_.hidden});
  parts.final_norm = gain("norm.weight", shape_.hidden);
  for (uint32_t i = 0; i < shape_.layers(); ++i) {
    parts.layers.push_back(layer(fmt::format("layers.{}.", i), shape_.layer_kinds[i]));
  }
  parts.mtp = mtp();
  refuse_unused();
  parts.tensor_bytes = bytes_;
  return parts;
}

/// Tells apart the usual ways of not being an MLX affine checkpoint before a single missing tensor is named.
void refuse_unquantised(const Checkpoint& checkpoint) {
  bool scale_inv = false;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (name.ends_with(".scales")) {
      return;
    }
    scale_inv = scale_inv || name.ends_with("weight_scale_inv");
  }
  if (scale_inv) {
    throw Error(ErrorCode::kUnsupported, "{} holds FP8 weights, expected {}", checkpoint.folder().string(),
                kSupportedQuantisation);
  }
  const auto embed = checkpoint.tensors().find("embed_tokens.weight");
  throw Error(ErrorCode::kUnsupported,
              "{} holds unquantised {} weights, expected {}; `lily quantize` is planned but not part of this version",
              checkpoint.folder().string(),
              embed == checkpoint.tensors().end() ? "" : dtype_name(embed->second.stored->dtype),
              kSupportedQuantisation);
}

}  // namespace

ModelWeights load_weights(const std::filesystem::path& folder) {
  const ModelConfig config = load_config(folder);
  auto checkpoint = std::make_shared<const Checkpoint>(folder);
  refuse_unquantised(*checkpoint);
  ModelWeights::Parts parts = Binder(*checkpoint, config).bind();
  return {std::move(checkpoint), std::move(parts)};
}

}  // namespace lily
