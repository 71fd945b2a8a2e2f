// The dimensions of a model: read once from config.json, checked there, and used by everything above.
// What kernels fix at compile time (head dims 256 and 128, conv width 4, group 64) is carried too, so that no reader
// needs to know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lily {

/// Codes that share one scale and bias, along the input axis of a quantised matrix.
inline constexpr uint32_t kQuantGroup = 64;

/// The mixer of a layer: Gated DeltaNet with recurrent state, or gated attention with a KV cache.
enum class LayerKind { kLinear, kAttention };

/// All counts are elements, not bytes. load_config guarantees that no helper here overflows.
struct ModelShape {
  uint32_t hidden = 0;
  uint32_t vocab = 0;
  uint32_t max_positions = 0;
  float rms_eps = 0;
  std::vector<LayerKind> layer_kinds;

  // attention layers
  uint32_t query_heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t rotary_dim = 0;  // leading dimensions of a head that RoPE turns
  float rope_theta = 0;

  // Gated DeltaNet layers
  uint32_t key_heads = 0;
  uint32_t value_heads = 0;
  uint32_t key_head_dim = 0;
  uint32_t value_head_dim = 0;
  uint32_t conv_width = 0;

  // mixture of experts, every layer
  uint32_t experts = 0;
  uint32_t experts_per_token = 0;
  uint32_t expert_intermediate = 0;
  uint32_t shared_intermediate = 0;

  uint32_t layers() const { return static_cast<uint32_t>(layer_kinds.size()); }
  uint32_t attention_layers() const { return count(LayerKind::kAttention); }
  uint32_t linear_layers() const { return count(LayerKind::kLinear); }

  /// Width of all query heads; q_proj has twice as many rows, since each head's gate follows its query.
  uint32_t query_dim() const { return query_heads * head_dim; }
  uint32_t kv_dim() const { return kv_heads * head_dim; }
  uint32_t heads_per_kv() const { return query_heads / kv_heads; }

  uint32_t key_dim() const { return key_heads * key_head_dim; }
  uint32_t value_dim() const { return value_heads * value_head_dim; }
  uint32_t value_heads_per_key() const { return value_heads / key_heads; }
  /// Channels of the causal convolution: q, k and v side by side.
  uint32_t conv_channels() const { return 2 * key_dim() + value_dim(); }

  /// KV cache bytes of one token over all attention layers.
  uint64_t kv_bytes_per_token(size_t element_bytes) const {
    return uint64_t{attention_layers()} * 2 * kv_dim() * element_bytes;
  }
  /// Recurrent state bytes of one sequence over all linear layers; the state is always float.
  uint64_t recurrent_state_bytes() const {
    return uint64_t{linear_layers()} * value_heads * key_head_dim * value_head_dim * sizeof(float);
  }
  /// Conv window bytes of one sequence over all linear layers: the conv_width - 1 rows before the current token.
  uint64_t conv_window_bytes(size_t element_bytes) const {
    return uint64_t{linear_layers()} * (conv_width - 1) * conv_channels() * element_bytes;
  }

  bool operator==(const ModelShape&) const = default;

 private:
  uint32_t count(LayerKind kind) const {
    uint32_t n = 0;
    for (const LayerKind each : layer_kinds) {
      n += each == kind ? 1U : 0U;
    }
    return n;
  }
};

}  // namespace lily
