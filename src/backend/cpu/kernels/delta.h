// Gated DeltaNet of one key head: conv + SiLU, l2 norms, gates, delta rule, gated norm. The token recurrence runs over
// slices of 32 value columns, 16 KB of state each, that stay in the L1 cache for a chunk of rows; columns do not depend
// on each other.
//
//   S <- alpha S;  d = beta (v - S^T k);  S <- S + k d^T;  o = S^T q
#pragma once

#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/kernels/simd.h"

namespace lily::cpu::LILY_SIMD_LEVEL {

constexpr uint32_t kSlice = 32;  // value columns a pass

/// Causal conv of 128 channels from `channel` on for all rows, then SiLU: out[row][128]. The window holds the three
/// rows before.
template <typename T>
static void conv_silu(const DeltaArgs<T>& a, uint32_t channel, float* out) {
  const size_t channels = size_t{2 * a.key_heads + a.value_heads} * kLinearHeadDim;
  for (uint32_t c = 0; c < kLinearHeadDim; c += 16) {
    float taps[kConvWidth][16];
    for (uint32_t lane = 0; lane < 16; ++lane)
      for (uint32_t j = 0; j < kConvWidth; ++j) taps[j][lane] = a.conv[(channel + c + lane) * kConvWidth + j];
    F16 w[kConvWidth];
    for (uint32_t j = 0; j < kConvWidth; ++j) w[j] = load(taps[j]);
    T* window = a.window + channel + c;
    F16 u[kConvWidth] = {load(window), load(window + channels), load(window + 2 * channels), splat(0.0F)};
    for (uint32_t row = 0; row < a.rows; ++row) {
      u[3] = load(a.proj + row * a.proj_stride + channel + c);
      F16 total = w[0] * u[0];
      total = fma(w[1], u[1], total);
      total = fma(w[2], u[2], total);
      total = fma(w[3], u[3], total);
      store(out + row * kLinearHeadDim + c, silu(total));
      u[0] = u[1];
      u[1] = u[2];
      u[2] = u[3];
    }
    for (uint32_t j = 0; j < 3; ++j) store(window + j * channels, u[j]);
  }
}

/// x <- x · rsqrt(Σ x² + 1e-6) · factor, rows of 128.
static void l2_normalise(float* x, uint32_t rows, float factor) {
  for (uint32_t row = 0; row < rows; ++row) {
    float* v = x + row * kLinearHeadDim;
    F16 squares = splat(0.0F);
    for (uint32_t i = 0; i < kLinearHeadDim; i += 16) squares = fma(load(v + i), load(v + i), squares);
    const F16 scale = splat(factor / __builtin_sqrtf(sum(squares) + 1e-6F));
    for (uint32_t i = 0; i < kLinearHeadDim; i += 16) store(v + i, load(v + i) * scale);
  }
}

/// ln(1 + e^x) for x <= 20, x above.
LILY_INLINE float softplus(float x) {
  return x > 20.0F ? x : __builtin_log1pf(first_lane(exponential(splat(x))));
}

/// Rows of one 32-column slice. state: rows of 128 columns; k, q: [rows][128]; v, o: [rows][128], slice columns only.
struct SliceArgs {
  float* state;
  const float* k;
  const float* q;
  const float* v;
  const float* alpha;
  const float* beta;
  float* o;
  uint32_t rows;
};

/// The recurrence over a slice whose rows of 32 columns are `stride` apart.
LILY_INLINE void delta_rows(const SliceArgs& a, float* slice, size_t stride) {
  for (uint32_t row = 0; row < a.rows; ++row) {
    const float* k = a.k + row * kLinearHeadDim;
    const float* q = a.q + row * kLinearHeadDim;
    const F16 alpha = splat(a.alpha[row]);
    // Four partial sums a column pair hide the latency of the multiply-adds; they are added in a fixed order.
    F16 read[4][2];
    for (auto& part : read) part[0] = part[1] = splat(0.0F);
    for (uint32_t i = 0; i < kLinearHeadDim; i += 4) {
      for (uint32_t j = 0; j < 4; ++j) {
        const float* s = slice + (i + j) * stride;
        const F16 ki = splat(k[i + j]);
        read[j][0] = fma(load(s), ki, read[j][0]);
        read[j][1] = fma(load(s + 16), ki, read[j][1]);
      }
    }
    F16 d[2];
    for (uint32_t c = 0; c < 2; ++c) {
      const F16 kept = alpha * ((read[0][c] + read[1][c]) + (read[2][c] + read[3][c]));
      d[c] = splat(a.beta[row]) * (load(a.v + row * kLinearHeadDim + 16 * c) - kept);
    }
    F16 out[4][2];
    for (auto& part : out) part[0] = part[1] = splat(0.0F);
    for (uint32_t i = 0; i < kLinearHeadDim; i += 4) {
      for (uint32_t j = 0; j < 4; ++j) {
        float* s = slice + (i + j) * stride;
        const F16 ki = splat(k[i + j]);
        const F16 qi = splat(q[i + j]);
        const F16 s0 = fma(ki, d[0], alpha * load(s));
        const F16 s1 = fma(ki, d[1], alpha * load(s + 16));
        store(s, s0);
        store(s + 16, s1);
        out[j][0] = fma(s0, qi, out[j][0]);
        out[j][1] = fma(s1, qi, out[j][1]);
      }
    }
    for (uint32_t c = 0; c < 2; ++c)
      store(a.o + row * kLinearHeadDim + 16 * c, (out[0][c] + out[1][c]) + (out[2][c] + out[3][c]));
  }
}

/// Up to two rows work on the state where it lies; more copy the slice, so that its rows lie together in the L1 cache.
static void delta_slice(const SliceArgs& a) {
  if (a.rows <= 2) {
    delta_rows(a, a.state, kLinearHeadDim);
    return;
  }
  alignas(64) float local[kLinearHeadDim * kSlice];
  for (uint32_t i = 0; i < kLinearHeadDim; ++i)
    for (uint32_t c = 0; c < kSlice; c += 16) store(local + i * kSlice + c, load(a.state + i * kLinearHeadDim + c));
  delta_rows(a, local, kSlice);
  for (uint32_t i = 0; i < kLinearHeadDim; ++i)
    for (uint32_t c = 0; c < kSlice; c += 16) store(a.state + i * kLinearHeadDim + c, load(local + i * kSlice + c));
}

/// y = norm · o · rsqrt(mean o² + eps) · silu(z), one rounding.
template <typename T>
static void gated_norm(const float* o, const float* norm, float eps, const T* z, T* y) {
  F16 squares = splat(0.0F);
  for (uint32_t i = 0; i < kLinearHeadDim; i += 16) squares = fma(load(o + i), load(o + i), squares);
  const F16 factor = splat(inverse_rms(squares, kLinearHeadDim, eps));
  for (uint32_t i = 0; i < kLinearHeadDim; i += 16)
    store(y + i, load(norm + i) * (load(o + i) * factor) * silu(load(z + i)));
}

template <typename T>
static void delta(const DeltaArgs<T>& a) {
  const uint32_t key_dim = a.key_heads * kLinearHeadDim;
  const uint32_t value_dim = a.value_heads * kLinearHeadDim;
  const uint32_t values_a_key = a.value_heads / a.key_heads;
  float* q = a.scratch;
  float* k = q + size_t{kDeltaChunk} * kLinearHeadDim;
  float* v = k + size_t{kDeltaChunk} * kLinearHeadDim;
  float* o = v + size_t{kDeltaChunk} * kLinearHeadDim;
  float* alpha = o + size_t{kDeltaChunk} * kLinearHeadDim;
  float* beta = alpha + kDeltaChunk;
  conv_silu(a, a.key_head * kLinearHeadDim, q);
  conv_silu(a, key_dim + a.key_head * kLinearHeadDim, k);
  l2_normalise(q, a.rows, 0.0883883476F);  // 128^(-1/2)
  l2_normalise(k, a.rows, 1.0F);
  for (uint32_t head = a.key_head * values_a_key; head < (a.key_head + 1) * values_a_key; ++head) {
    conv_silu(a, 2 * key_dim + head * kLinearHeadDim, v);
    const float decay = -first_lane(exponential(splat(a.a_log[head])));
    for (uint32_t row = 0; row < a.rows; ++row) {
      const T* gates = a.proj + row * a.proj_stride + 2 * key_dim + 2 * value_dim;
      T pair[16] = {};
      pair[0] = gates[head];
      pair[1] = gates[a.value_heads + head];
      float raw[16];
      store(raw, load(pair));
      alpha[row] = first_lane(exponential(splat(decay * softplus(raw[0] + a.dt_bias[head]))));
      beta[row] = first_lane(sigmoid(splat(raw[1])));
    }
    float* state = a.state + size_t{head} * kLinearHeadDim * kLinearHeadDim;
    for (uint32_t slice = 0; slice < kLinearHeadDim; slice += kSlice) {
      delta_slice({state + slice, k, q, v + slice, alpha, beta, o + slice, a.rows});
    }
    for (uint32_t row = 0; row < a.rows; ++row) {
      const T* z = a.proj + row * a.proj_stride + 2 * key_dim + value_dim + head * kLinearHeadDim;
      gated_norm(o + row * kLinearHeadDim, a.norm, a.rms_eps, z, a.out + row * a.out_stride + head * kLinearHeadDim);
    }
  }
}

}  // namespace lily::cpu::LILY_SIMD_LEVEL
