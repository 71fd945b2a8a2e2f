// What a SIMD level offers: one table of function pointers, filled by each level_*.cpp. Plain structs and pointers
// only, since this header is compiled with every level's flags.
//
// Weight blocks. Quantised matrices are repacked once into blocks of 16 rows; per block, the groups of 64 inputs follow
// each other:
//   4 bits: 8 words × 16 rows u32 (word w of a row holds inputs 8w .. 8w+7, lowest nibble first), 16 scales bf16, 16
//   biases bf16: 576 bytes 8 bits: 16 words × 16 rows u32 (word 2w: inputs 8w + 0,2,4,6; word 2w+1: inputs 8w +
//   1,3,5,7), scales, biases:              1,088 bytes
// Rows are padded with zero codes, scales and biases to a multiple of 16.
//
// Prepared inputs. bf16 activations are turned into 14-bit integers a group of 64: x ≈ scale · n with scale = 2^(e-13)
// and 2^e <= max|x| < 2^(e+1), so values down to max/64 keep all their bits and the rest are off by at most 2^-14 ·
// max. n is split in two signed bytes, n = 256 · high + low. Group sums of code · n are integers and therefore exact in
// any order. Layout, group-major so that a tile of rows streams: codes[group][row][high 64 | low 64], dwords in the
// order of the 8-bit words above; factors[group][row][scale, scale · Σ n]. f32 activations stay floats:
// codes[group][row][64] f32, factors[group][row][unused, Σ x].
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bf16.h"

namespace lily::cpu {

constexpr uint32_t kBlockRows = 16;
constexpr uint32_t kGroup = 64;
constexpr size_t kGroupBytes4 = 8 * 64 + 64;
constexpr size_t kGroupBytes8 = 16 * 64 + 64;
constexpr uint32_t kHeadDim = 256;        // attention heads
constexpr uint32_t kLinearHeadDim = 128;  // Gated DeltaNet heads, keys and values
constexpr uint32_t kConvWidth = 4;
constexpr uint32_t kRotaryDim = 64;
constexpr uint32_t kKvBlock = 64;         // tokens a KV block
constexpr uint32_t kAttentionSpan = 512;  // tokens whose scores are held at once; spans start at multiples of it
constexpr uint32_t kDeltaChunk = 64;      // rows that one pass of a state slice through the L1 cache serves
constexpr uint32_t kMaxHeadGroup = 4;     // query heads that share a load of keys and values

/// Bytes that one row of one group of prepared input takes.
template <typename T>
constexpr size_t prepared_group_bytes() {
  return sizeof(T) == 2 ? 128 : 256;
}

/// A batch of prepared rows: see the layout above.
struct Prepared {
  std::byte* codes = nullptr;
  float* factors = nullptr;  // [groups][rows][2]
  uint32_t rows = 0;         // row stride of a group
};

/// out[i][0..15] = block rows · x[row_index(i)], i < count.
struct LinearTile {
  const std::byte* block = nullptr;
  uint32_t bits = 4;
  uint32_t groups = 0;
  Prepared x;
  const uint32_t* indices = nullptr;  // prepared row of output i; nullptr: first + i
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t index_divisor = 1;  // indices are divided by it (pair index to row)
  float* out = nullptr;        // [count][16]
};

/// Gated DeltaNet of one key head and its value heads over consecutive rows of one run, at most kDeltaChunk rows.
template <typename T>
struct DeltaArgs {
  const T* proj = nullptr;  // first row; rows are proj_stride apart: qkv | z | a | b
  size_t proj_stride = 0;
  uint32_t rows = 0;
  uint32_t key_head = 0, key_heads = 0, value_heads = 0;
  const float* conv = nullptr;     // [channels][4]
  const float* a_log = nullptr;    // [value heads]
  const float* dt_bias = nullptr;  // [value heads]
  const float* norm = nullptr;     // [128]
  float rms_eps = 0;
  T* window = nullptr;     // [3][channels], read and left as the last three rows
  float* state = nullptr;  // [value heads][128][128], read and written
  T* out = nullptr;        // first row; rows are out_stride apart
  size_t out_stride = 0;
  float* scratch = nullptr;  // kDeltaScratch floats
};
constexpr size_t kDeltaScratch = size_t{kDeltaChunk} * (4 * kLinearHeadDim + 4) + 4096 + kLinearHeadDim * 8;

/// Attention of `heads` query heads of one row that share a KV head.
template <typename T>
struct AttentionArgs {
  const T* query = nullptr;  // [heads][256]
  const T* gate = nullptr;   // first head's gate; heads are gate_stride apart
  size_t gate_stride = 0;
  uint32_t heads = 0;      // 1 .. kMaxHeadGroup
  uint32_t positions = 0;  // keys 0 .. positions-1 are seen
  const T* keys = nullptr;  // layer base; block b of kv head h at (b · kv_heads + h) · 64 · 256, [256 dims][64 tokens]
  const T* values = nullptr;  // same, [64 tokens][256 dims]
  uint32_t kv_head = 0, kv_heads = 0;
  const uint32_t* blocks = nullptr;  // block table row of the sequence
  T* out = nullptr;                  // [heads][256]
  float* scratch = nullptr;          // kAttentionScratch floats
};
constexpr size_t kAttentionScratch = size_t{kMaxHeadGroup} * (kAttentionSpan + 2 * kHeadDim + 4);

/// Everything that depends on the activation type.
template <typename T>
struct ActivationKernels {
  /// Row `row` of `to` = prepared x [cols].
  void (*prepare)(const T* x, uint32_t cols, Prepared to, uint32_t row);
  /// normed = round(x · rsqrt(mean x² + eps) · gain), [cols].
  void (*rms_norm)(const T* x, const float* gain, float eps, uint32_t cols, T* normed);
  void (*linear)(const LinearTile& tile);
  /// to[i][0..n) = acc[i][0..n) rounded, rows `stride` apart, n <= 16.
  void (*store_tile)(const float* acc, uint32_t count, uint32_t n, T* to, size_t stride);
  /// to += acc, same layout; one rounding.
  void (*add_tile)(const float* acc, uint32_t count, T* to, size_t stride);
  /// to[row(i)] = round(silu(gate) · up), [count][16] each; row(i) = indices ? indices[i] : first + i.
  void (*silu_mul_tile)(const float* gate, const float* up, uint32_t count, const uint32_t* indices, uint32_t first,
                        T* to, size_t stride);
  /// One row of 16: residual += Σ_j scores[j] · parts[j · part_stride + 0..15], j ascending, shared last.
  void (*combine)(const float* parts, size_t part_stride, const float* scores, uint32_t count, T* residual);
  void (*delta)(const DeltaArgs<T>& args);
  /// q and k norm with rotary embedding of one row; x, out: [256]; angles: [32] cos, [32] sin.
  void (*norm_rope)(const T* x, const float* gain, float eps, const float* angles, T* out);
  void (*attention)(const AttentionArgs<T>& args);
  /// out [cols] = dequantised row of a block matrix.
  void (*embed)(const std::byte* blocks, uint32_t bits, uint32_t groups, uint32_t row, T* out);
};

/// Scan of one row of logits.
struct LogitScan {
  float maximum;    // over all lanes
  uint32_t argmax;  // lowest index of the maximum
  uint32_t non_finite;
};

struct KernelTable {
  ActivationKernels<Bf16> bf16;
  ActivationKernels<float> f32;
  /// Maximum, its lowest index, and whether any of n values is NaN or infinite. n % 16 == 0.
  LogitScan (*scan_logits)(const float* logits, uint32_t n);
  /// Σ e^(scale · (x - shift)) over n values, 16 lanes in a fixed order. n % 16 == 0.
  float (*sum_exp)(const float* x, uint32_t n, float shift, float scale);
};

const KernelTable& portable_kernels();
#if defined(LILY_HAVE_AVX2)
const KernelTable& avx2_kernels();
#endif
#if defined(LILY_HAVE_AVX512)
const KernelTable& avx512_kernels();
#endif
#if defined(LILY_HAVE_NEON)
const KernelTable& neon_kernels();
#endif

template <typename T>
const ActivationKernels<T>& activation_kernels(const KernelTable& table);
template <>
inline const ActivationKernels<Bf16>& activation_kernels<Bf16>(const KernelTable& table) {
  return table.bf16;
}
template <>
inline const ActivationKernels<float>& activation_kernels<float>(const KernelTable& table) {
  return table.f32;
}

}  // namespace lily::cpu
