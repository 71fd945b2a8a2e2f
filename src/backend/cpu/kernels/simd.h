// Sixteen logical lanes on every instruction set: one 512-bit register, two of 256 bits, or four of 128. Included only
// by the level translation units (level_*.cpp), which define LILY_SIMD_LEVEL and are compiled with that level's flags.
//
// Rule for everything under kernels/: no standard library templates and no inline functions with external linkage,
// since the linker could pick a copy compiled for this level for the whole program. All is static or inside the level's
// namespace. Every float operation is written out (fma where meant), lanes and their order are fixed, so all routes of
// a level agree bit for bit.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && !defined(LILY_PORTABLE)
#define LILY_NEON
#include <arm_neon.h>
#endif

#include "backend/cpu/kernels/kernel_table.h"

#ifndef LILY_SIMD_LEVEL
#error "include this from a level translation unit only"
#endif

#define LILY_INLINE static inline __attribute__((always_inline))

namespace lily::cpu::LILY_SIMD_LEVEL {

#if defined(__AVX512F__)
constexpr int kWidth = 16;
#elif defined(__AVX2__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif
constexpr int kParts = 16 / kWidth;

// Native vectors; arithmetic and comparisons come from the compiler's vector extension.
using NativeF = float __attribute__((vector_size(kWidth * 4)));
using NativeI = int32_t __attribute__((vector_size(kWidth * 4)));
using NativeU = uint32_t __attribute__((vector_size(kWidth * 4)));

/// 16 floats.
struct F16 {
  NativeF part[kParts];
};
/// 16 signed integers.
struct I16 {
  NativeI part[kParts];
};
/// 16 unsigned words.
struct U16 {
  NativeU part[kParts];
};

#define LILY_EACH for (int p = 0; p < kParts; ++p)

LILY_INLINE F16 splat(float x) {
  F16 r;
#if defined(__AVX512F__)
  LILY_EACH r.part[p] = _mm512_set1_ps(x);
#elif defined(__AVX2__)
  LILY_EACH r.part[p] = _mm256_set1_ps(x);
#else
  LILY_EACH r.part[p] = NativeF{x, x, x, x};
#endif
  return r;
}
LILY_INLINE I16 splat_i(int32_t x) {
  I16 r;
  LILY_EACH r.part[p] = NativeI{} + x;
  return r;
}
LILY_INLINE F16 load(const float* from) {
  F16 r;
  LILY_EACH std::memcpy(&r.part[p], from + p * kWidth, sizeof(NativeF));
  return r;
}
LILY_INLINE void store(float* to, F16 x) {
  LILY_EACH std::memcpy(to + p * kWidth, &x.part[p], sizeof(NativeF));
}
LILY_INLINE U16 load_u(const void* from) {
  U16 r;
  LILY_EACH std::memcpy(&r.part[p], static_cast<const char*>(from) + p * kWidth * 4, sizeof(NativeU));
  return r;
}
LILY_INLINE F16 operator+(F16 a, F16 b) {
  LILY_EACH a.part[p] += b.part[p];
  return a;
}
LILY_INLINE F16 operator-(F16 a, F16 b) {
  LILY_EACH a.part[p] -= b.part[p];
  return a;
}
LILY_INLINE F16 operator*(F16 a, F16 b) {
  LILY_EACH a.part[p] *= b.part[p];
  return a;
}
LILY_INLINE F16 operator/(F16 a, F16 b) {
  LILY_EACH a.part[p] /= b.part[p];
  return a;
}
LILY_INLINE I16 operator+(I16 a, I16 b) {
  LILY_EACH a.part[p] += b.part[p];
  return a;
}
LILY_INLINE I16 operator-(I16 a, I16 b) {
  LILY_EACH a.part[p] -= b.part[p];
  return a;
}
/// Arithmetic shift.
LILY_INLINE I16 shift_right_signed(I16 a, int bits) {
  LILY_EACH a.part[p] = a.part[p] >> bits;
  return a;
}
LILY_INLINE I16 as_signed(U16 a) {
  I16 r;
  std::memcpy(&r, &a, sizeof r);
  return r;
}
LILY_INLINE int32_t sum(I16 x) {
  int32_t lane[16];
  std::memcpy(lane, &x, sizeof lane);
  int32_t total = 0;
  for (const int32_t value : lane) total += value;
  return total;
}
LILY_INLINE I16 shift_left(I16 a, int bits) {
  LILY_EACH a.part[p] = a.part[p] << bits;
  return a;
}
LILY_INLINE U16 shift_right(U16 a, int bits) {
  LILY_EACH a.part[p] = a.part[p] >> bits;
  return a;
}
LILY_INLINE U16 operator&(U16 a, uint32_t mask) {
  LILY_EACH a.part[p] &= mask;
  return a;
}
/// a · b + c. One rounding, except on the portable level, which has no such instruction and rounds twice.
LILY_INLINE F16 fma(F16 a, F16 b, F16 c) {
#if defined(__AVX512F__)
  return {{_mm512_fmadd_ps(a.part[0], b.part[0], c.part[0])}};
#elif defined(__AVX2__)
  return {{_mm256_fmadd_ps(a.part[0], b.part[0], c.part[0]), _mm256_fmadd_ps(a.part[1], b.part[1], c.part[1])}};
#elif defined(LILY_NEON)
  LILY_EACH c.part[p] = vfmaq_f32(c.part[p], a.part[p], b.part[p]);
  return c;
#else
  return a * b + c;
#endif
}
LILY_INLINE F16 to_float(I16 a) {
  F16 r;
  LILY_EACH r.part[p] = __builtin_convertvector(a.part[p], NativeF);
  return r;
}
LILY_INLINE F16 as_float(U16 a) {
  F16 r;
  std::memcpy(&r, &a, sizeof r);
  return r;
}
LILY_INLINE U16 as_bits(F16 a) {
  U16 r;
  std::memcpy(&r, &a, sizeof r);
  return r;
}
/// Lanes of a where a > b, else of b: a NaN in a gives b, a NaN in b stays.
LILY_INLINE F16 larger(F16 a, F16 b) {
  F16 r;
  LILY_EACH r.part[p] = a.part[p] > b.part[p] ? a.part[p] : b.part[p];
  return r;
}
/// then where x < limit, else otherwise; a NaN in x takes otherwise.
LILY_INLINE F16 select_less(F16 x, F16 limit, F16 then, F16 otherwise) {
  F16 r;
  LILY_EACH r.part[p] = x.part[p] < limit.part[p] ? then.part[p] : otherwise.part[p];
  return r;
}
LILY_INLINE F16 absolute(F16 x) {
  return as_float(as_bits(x) & 0x7fffffffU);
}

/// Sum of the lanes in a fixed tree: lane i with lane i + 8, then + 4, + 2, + 1.
LILY_INLINE float sum(F16 x) {
  float lane[16];
  store(lane, x);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}
LILY_INLINE float maximum(F16 x) {
  float lane[16];
  store(lane, x);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
  return lane[0];
}

// Activations: bf16 widened to float and back (nearest even), or float as it is.
LILY_INLINE F16 load(const Bf16* from) {
#if defined(__AVX512F__)
  __m256i half;
  std::memcpy(&half, from, sizeof half);
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))}};
#elif defined(__AVX2__)
  F16 r;
  LILY_EACH {
    __m128i half;
    std::memcpy(&half, from + p * 8, sizeof half);
    r.part[p] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  return r;
#else
  float lane[16];
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = static_cast<uint32_t>(from[i].bits) << 16;
    std::memcpy(&lane[i], &bits, 4);
  }
  return load(lane);
#endif
}
LILY_INLINE void store(Bf16* to, F16 x) {
  U16 bits = as_bits(x);
  U16 rounded;
  LILY_EACH {
    const NativeU is_nan = reinterpret_cast<NativeU>((bits.part[p] & 0x7fffffffU) > 0x7f800000U);
    const NativeU nearest = bits.part[p] + 0x7fffU + ((bits.part[p] >> 16) & 1U);
    rounded.part[p] = ((is_nan & (bits.part[p] | 0x400000U)) | (~is_nan & nearest)) >> 16;
  }
#if defined(__AVX512F__)
  __m512i words;
  std::memcpy(&words, &rounded, sizeof words);
  const __m256i half = _mm512_cvtepi32_epi16(words);
  std::memcpy(static_cast<void*>(to), &half, sizeof half);
#else
  uint32_t lane[16];
  std::memcpy(lane, &rounded, sizeof lane);
  for (int i = 0; i < 16; ++i) to[i].bits = static_cast<uint16_t>(lane[i]);
#endif
}
/// x as the activation type would hold it.
LILY_INLINE F16 rounded_to(F16 x, const Bf16*) {
  Bf16 half[16];
  store(half, x);
  return load(half);
}
LILY_INLINE F16 rounded_to(F16 x, const float*) {
  return x;
}

/// Stores the low byte of every lane of two halves of 8 in the order 0 2 4 6 1 3 5 7: two dwords of prepared input
/// each.
LILY_INLINE void store_bytes_even_odd(void* to, I16 x) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(x.part[0]));
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm_shuffle_epi8(bytes, order));
#else
  int32_t lane[16];
  std::memcpy(lane, &x, sizeof lane);
  int8_t bytes[16];
  for (int half = 0; half < 16; half += 8) {
    for (int i = 0; i < 4; ++i) {
      bytes[half + i] = static_cast<int8_t>(lane[half + 2 * i]);
      bytes[half + 4 + i] = static_cast<int8_t>(lane[half + 2 * i + 1]);
    }
  }
  std::memcpy(to, bytes, sizeof bytes);
#endif
}

/// acc + four byte products a lane: unsigned bytes of w (each at most 15) times signed bytes of x.
LILY_INLINE I16 dot4_nibble(I16 acc, U16 w, I16 x) {
#if defined(__AVX512VNNI__)
  return {{reinterpret_cast<NativeI>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(acc.part[0]),
                                                         reinterpret_cast<__m512i>(w.part[0]),
                                                         reinterpret_cast<__m512i>(x.part[0])))}};
#elif defined(__AVX2__)
  // |15 · 128 · 2| fits the 16-bit pairs of maddubs, so nothing saturates.
  LILY_EACH {
    const __m256i pairs =
        _mm256_maddubs_epi16(reinterpret_cast<__m256i>(w.part[p]), reinterpret_cast<__m256i>(x.part[p]));
    acc.part[p] += reinterpret_cast<NativeI>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  return acc;
#elif defined(LILY_NEON) && defined(__ARM_FEATURE_DOTPROD)
  LILY_EACH acc.part[p] = vdotq_s32(acc.part[p], vreinterpretq_s8_u32(w.part[p]), vreinterpretq_s8_s32(x.part[p]));
  return acc;
#elif defined(LILY_NEON)
  LILY_EACH {
    const int8x16_t a = vreinterpretq_s8_u32(w.part[p]);
    const int8x16_t b = vreinterpretq_s8_s32(x.part[p]);
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    const int32x4_t high = vpaddlq_s16(vmull_s8(vget_high_s8(a), vget_high_s8(b)));
    acc.part[p] += vpaddq_s32(low, high);
  }
  return acc;
#else
  for (int byte = 0; byte < 4; ++byte) {
    LILY_EACH {
      const NativeI wide_w = reinterpret_cast<NativeI>((w.part[p] >> (8 * byte)) & 0xffU);
      const NativeI wide_x = (x.part[p] << (24 - 8 * byte)) >> 24;
      acc.part[p] += wide_w * wide_x;
    }
  }
  return acc;
#endif
}
/// The same for any unsigned byte of w.
LILY_INLINE I16 dot4_byte(I16 acc, U16 w, I16 x) {
#if defined(__AVX512VNNI__) || !(defined(__AVX2__) || defined(LILY_NEON))
  return dot4_nibble(acc, w, x);
#else
  const I16 high = dot4_nibble(splat_i(0), shift_right(w, 4) & 0x0f0f0f0fU, x);
  return dot4_nibble(acc + shift_left(high, 4), w & 0x0f0f0f0fU, x);
#endif
}

/// e^x: n = round(x / ln 2), then a degree-6 polynomial on the rest (relative error below 3e-7). 0 below -87, infinity
/// above 88, NaN stays NaN.
LILY_INLINE F16 exponential(F16 x) {
  const F16 low = splat(-87.0F);
  const F16 high = splat(88.0F);
  F16 bounded = select_less(x, low, low, x);
  bounded = select_less(high, bounded, high, bounded);
  const F16 magic = splat(12582912.0F);  // 1.5 · 2^23: adding it rounds to an integer, kept in the low mantissa bits
  const F16 shifted = fma(bounded, splat(1.44269504F), magic);
  const F16 n = shifted - magic;
  F16 r = fma(n, splat(-0.693145752F), bounded);
  r = fma(n, splat(-1.42860677e-6F), r);
  F16 y = splat(1.38888889e-3F);
  y = fma(y, r, splat(8.33333333e-3F));
  y = fma(y, r, splat(4.16666667e-2F));
  y = fma(y, r, splat(1.66666667e-1F));
  y = fma(y, r, splat(0.5F));
  y = fma(y, r, splat(1.0F));
  y = fma(y, r, splat(1.0F));
  U16 bits = as_bits(y);
  const U16 scale = as_bits(shifted);
  LILY_EACH bits.part[p] += scale.part[p] << 23;
  F16 result = as_float(bits);
  result = select_less(x, low, splat(0.0F), result);
  result = select_less(high, x, splat(__builtin_inff()), result);
  F16 kept;
  LILY_EACH kept.part[p] = x.part[p] == x.part[p] ? result.part[p] : x.part[p];
  return kept;
}
LILY_INLINE F16 sigmoid(F16 x) {
  const F16 one = splat(1.0F);
  return one / (one + exponential(splat(0.0F) - x));
}
LILY_INLINE F16 silu(F16 x) {
  return x * sigmoid(x);
}

/// Lane 0: a scalar through the 16-lane code, so that tails and scalars agree with vectors.
LILY_INLINE float first_lane(F16 x) {
  float lane[16];
  store(lane, x);
  return lane[0];
}

#undef LILY_EACH

}  // namespace lily::cpu::LILY_SIMD_LEVEL
