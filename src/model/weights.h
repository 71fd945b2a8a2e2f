// The model's weights: every matrix and vector of the network by role, as views into the mapped checkpoint, shapes and
// widths checked against the config. Copies nothing and repacks nothing: that is a backend's adopt. Data may lie at any
// byte address, so read it by memcpy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/config.h"
#include "model/shape.h"

namespace lily {

class Checkpoint;

/// One quantised matrix [rows, cols]: w[r][c] = scale[r][c / 64] * code[r][c] + bias[r][c / 64]. Pointers may be
/// unaligned.
struct QuantView {
  uint32_t bits = 4;  // 4 or 8
  uint32_t rows = 0;
  uint32_t cols = 0;                  // a multiple of kQuantGroup
  const std::byte* codes = nullptr;   // [rows, cols * bits / 32] u32, lowest bits first
  const std::byte* scales = nullptr;  // [rows, cols / 64] bf16
  const std::byte* biases = nullptr;  // [rows, cols / 64] bf16

  size_t code_row_bytes() const { return size_t{cols} * bits / 8; }
  size_t code_bytes() const { return size_t{rows} * code_row_bytes(); }
  uint32_t groups_per_row() const { return cols / kQuantGroup; }
  /// Bytes of the scales; the biases take as many.
  size_t scale_bytes() const { return size_t{rows} * groups_per_row() * 2; }
  /// One dequantised weight in fp32, unrounded. For tests and one-off reads; kernels have their own way.
  float at(uint32_t row, uint32_t col) const;
};

/// One quantised tensor: a matrix, or `experts` matrices of the same shape one after the other.
struct QuantTensor {
  std::string name;  // canonical, without ".weight": layers.7.mlp.switch_mlp.gate_proj
  uint32_t experts = 1;
  uint32_t bits = 4;
  uint32_t rows = 0;  // of one expert
  uint32_t cols = 0;
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
  const std::byte* biases = nullptr;

  QuantView expert(uint32_t index) const;
  /// The whole of a plain matrix (experts == 1).
  QuantView view() const { return expert(0); }
  /// Codes, scales and biases of all experts.
  uint64_t bytes() const;
};

/// One unquantised tensor: norms, conv taps, decay parameters. The pointer may be unaligned.
struct PlainTensor {
  enum class Dtype { kBf16, kF32 };

  std::string name;  // canonical: layers.0.input_layernorm.weight
  Dtype dtype = Dtype::kBf16;
  std::vector<uint32_t> shape;
  const std::byte* data = nullptr;
  /// The file stores gain - 1 (original layout); at() already adds it.
  bool shift_by_one = false;

  size_t size() const;
  uint64_t bytes() const { return size() * (dtype == Dtype::kBf16 ? 2 : 4); }
  /// The effective value of element `index` (row-major): what the network multiplies by, with the gain's one added and
  /// rounded to bf16.
  float at(size_t index) const;
  std::vector<float> values() const;
};

struct MoeWeights {
  QuantTensor router;            // [experts, hidden]
  QuantTensor expert_gate;       // experts x [expert_intermediate, hidden]
  QuantTensor expert_up;         // experts x [expert_intermediate, hidden]
  QuantTensor expert_down;       // experts x [hidden, expert_intermediate]
  QuantTensor shared_gate;       // [1, hidden]: the scalar that scales the shared expert
  QuantTensor shared_gate_proj;  // [shared_intermediate, hidden]
  QuantTensor shared_up_proj;    // [shared_intermediate, hidden]
  QuantTensor shared_down_proj;  // [hidden, shared_intermediate]
};

/// Gated DeltaNet. Rows of in_proj_qkv: q, k, v, each head-major.
struct LinearLayer {
  QuantTensor in_proj_qkv;  // [conv_channels, hidden]
  QuantTensor in_proj_z;    // [value_dim, hidden]
  QuantTensor in_proj_a;    // [value_heads, hidden]
  QuantTensor in_proj_b;    // [value_heads, hidden]
  QuantTensor out_proj;     // [hidden, value_dim]
  PlainTensor conv;         // [conv_channels, conv_width], last tap is the current token
  PlainTensor a_log;        // [value_heads], bf16 or f32
  PlainTensor dt_bias;      // [value_heads]
  PlainTensor norm;         // [value_head_dim], bf16 or f32, a plain gain in every layout
};

/// Gated attention. Rows of q_proj: per head head_dim rows of query, then head_dim rows of gate.
struct AttentionLayer {
  QuantTensor q_proj;  // [2 * query_dim, hidden]
  QuantTensor k_proj;  // [kv_dim, hidden]
  QuantTensor v_proj;  // [kv_dim, hidden]
  QuantTensor o_proj;  // [hidden, query_dim]
  PlainTensor q_norm;  // [head_dim]
  PlainTensor k_norm;  // [head_dim]
};

struct LayerWeights {
  PlainTensor input_norm;  // [hidden]
  PlainTensor post_norm;   // [hidden]
  std::variant<LinearLayer, AttentionLayer> mixer;
  MoeWeights moe;

  LayerKind kind() const {
    return std::holds_alternative<LinearLayer>(mixer) ? LayerKind::kLinear : LayerKind::kAttention;
  }
  const LinearLayer& linear() const { return std::get<LinearLayer>(mixer); }
  const AttentionLayer& attention() const { return std::get<AttentionLayer>(mixer); }
};

/// The multi-token prediction head: one attention layer over fc(concat(embedding, hidden)); embedding and lm_head are
/// the trunk's.
struct MtpWeights {
  QuantTensor fc;              // [hidden, 2 * hidden], columns: embedding half, hidden half
  PlainTensor embedding_norm;  // [hidden]
  PlainTensor hidden_norm;     // [hidden]
  PlainTensor final_norm;      // [hidden]
  LayerWeights layer;
};

/// All weights and the config they belong to. Owns the mappings: every view is valid as long as this object lives;
/// moving keeps views valid.
class ModelWeights {
 public:
  /// What load_weights binds; plain data.
  struct Parts {
    ModelConfig config;
    QuantTensor embed;       // [vocab, hidden]
    QuantTensor lm_head;     // [vocab, hidden]
    PlainTensor final_norm;  // [hidden]
    std::vector<LayerWeights> layers;
    std::optional<MtpWeights> mtp;
    uint64_t tensor_bytes = 0;
  };

  ModelWeights(std::shared_ptr<const Checkpoint> checkpoint, Parts parts);

  const ModelConfig& config() const { return parts_.config; }
  const ModelShape& shape() const { return parts_.config.shape; }
  const QuantTensor& embed() const { return parts_.embed; }
  const QuantTensor& lm_head() const { return parts_.lm_head; }
  const PlainTensor& final_norm() const { return parts_.final_norm; }
  const std::vector<LayerWeights>& layers() const { return parts_.layers; }
  /// The MTP head where the checkpoint holds a complete one in the quantised layout.
  const std::optional<MtpWeights>& mtp() const { return parts_.mtp; }

  /// Bytes of the tensors above, MTP included; vision and other skipped tensors are not.
  uint64_t tensor_bytes() const { return parts_.tensor_bytes; }
  /// Bytes of all opened shards.
  uint64_t file_bytes() const;
  /// 16 hex digits that tell checkpoints apart: shard sizes, headers and the first bytes of every tensor. Touches a
  /// page a tensor.
  std::string identity() const;
  /// Lets the pages of a tensor go after a backend has repacked it; reading it again fetches them from the file.
  void release(const QuantTensor& tensor) const;

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
  Parts parts_;
};

/// Opens, checks and binds the MLX 4-bit checkpoint in `folder`; maps the shards and reads only their headers.
/// Throws Error (kCheckpoint, kConfig, kUnsupported, kIo) with one sentence: what was expected, what was found, where.
ModelWeights load_weights(const std::filesystem::path& folder);

}  // namespace lily
