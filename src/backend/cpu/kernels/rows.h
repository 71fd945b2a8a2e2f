// Row-wise pieces: RMS norm, rotary embedding, and what happens to a tile of 16 outputs once the product is done.
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace lily::cpu::LILY_SIMD_LEVEL {

/// 1 / sqrt(Σ x² / n + eps).
LILY_INLINE float inverse_rms(F16 squares, uint32_t n, float eps) {
  return 1.0F / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + eps);
}

template <typename T>
static void rms_norm(const T* x, const float* gain, float eps, uint32_t cols, T* normed) {
  F16 squares = splat(0.0F);
  for (uint32_t i = 0; i < cols; i += 16) {
    const F16 v = load(x + i);
    squares = fma(v, v, squares);
  }
  const F16 factor = splat(inverse_rms(squares, cols, eps));
  for (uint32_t i = 0; i < cols; i += 16) store(normed + i, load(x + i) * factor * load(gain + i));
}

template <typename T>
static void store_tile(const float* acc, uint32_t count, uint32_t n, T* to, size_t stride) {
  for (uint32_t i = 0; i < count; ++i) {
    if (n == 16) {
      store(to + i * stride, load(acc + 16 * i));
    } else {
      T row[16];
      store(row, load(acc + 16 * i));
      std::memcpy(static_cast<void*>(to + i * stride), row, n * sizeof(T));
    }
  }
}

template <typename T>
static void add_tile(const float* acc, uint32_t count, T* to, size_t stride) {
  for (uint32_t i = 0; i < count; ++i) store(to + i * stride, load(to + i * stride) + load(acc + 16 * i));
}

template <typename T>
static void silu_mul_tile(const float* gate, const float* up, uint32_t count, const uint32_t* indices, uint32_t first,
                          T* to, size_t stride) {
  for (uint32_t i = 0; i < count; ++i) {
    const size_t row = indices != nullptr ? indices[i] : first + i;
    store(to + row * stride, silu(load(gate + 16 * i)) * load(up + 16 * i));
  }
}

template <typename T>
static void combine(const float* parts, size_t part_stride, const float* scores, uint32_t count, T* residual) {
  F16 total = splat(0.0F);
  for (uint32_t j = 0; j < count; ++j) total = fma(splat(scores[j]), load(parts + j * part_stride), total);
  store(residual, load(residual) + total);
}

template <typename T>
static void norm_rope(const T* x, const float* gain, float eps, const float* angles, T* out) {
  F16 squares = splat(0.0F);
  F16 v[kHeadDim / 16];
  for (uint32_t i = 0; i < kHeadDim / 16; ++i) {
    v[i] = load(x + 16 * i);
    squares = fma(v[i], v[i], squares);
  }
  const F16 factor = splat(inverse_rms(squares, kHeadDim, eps));
  for (uint32_t i = 0; i < kHeadDim / 16; ++i) v[i] = rounded_to(v[i] * factor * load(gain + 16 * i), x);
  // Pairs (j, j + 32) of the first 64 dimensions turn by angle j.
  for (uint32_t i = 0; i < 2; ++i) {
    const F16 cosine = load(angles + 16 * i);
    const F16 sine = load(angles + 32 + 16 * i);
    const F16 first = v[i];
    const F16 second = v[i + 2];
    v[i] = first * cosine - second * sine;
    v[i + 2] = second * cosine + first * sine;
  }
  for (uint32_t i = 0; i < kHeadDim / 16; ++i) store(out + 16 * i, v[i]);
}

static LogitScan scan_logits(const float* logits, uint32_t n) {
  F16 best = load(logits);
  F16 poison = best - best;
  for (uint32_t i = 16; i < n; i += 16) {
    const F16 v = load(logits + i);
    poison = poison + (v - v);
    best = larger(v, best);
  }
  const float bad = sum(poison);
  LogitScan scan{maximum(best), 0, bad == 0.0F ? 0U : 1U};
  for (uint32_t i = 0; i < n; ++i) {
    if (logits[i] == scan.maximum) {
      scan.argmax = i;
      break;
    }
  }
  return scan;
}

static float sum_exp(const float* x, uint32_t n, float shift, float scale) {
  F16 total = splat(0.0F);
  for (uint32_t i = 0; i < n; i += 16) total = total + exponential((load(x + i) - splat(shift)) * splat(scale));
  return sum(total);
}

}  // namespace lily::cpu::LILY_SIMD_LEVEL
