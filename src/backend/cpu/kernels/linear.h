// Quantised matrix products over repacked blocks: prepare an input row, multiply a block of 16 rows with a tile of
// inputs, embed. Layouts: kernel_table.h. Included by level translation units only.
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace lily::cpu::LILY_SIMD_LEVEL {

/// Largest power of two not above a finite |x| >= 2^-100, as float; 2^-100 below that.
LILY_INLINE float power_of_two_below(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits &= 0x7f800000U;
  const uint32_t floor_bits = (127U - 100U) << 23;
  bits = bits < floor_bits ? floor_bits : bits;
  float power;
  std::memcpy(&power, &bits, 4);
  return power;
}

/// One group of 64 to 14-bit integers; see kernel_table.h for scale and order. A group with a NaN or an infinity gets
/// the factor NaN, so that it shows in every output that reads it.
LILY_INLINE void prepare_group(const F16 (&x)[4], std::byte* codes, float* factors) {
  F16 largest = absolute(x[0]);
  F16 poison = x[0] - x[0];  // 0, or NaN where x is not finite
  for (int i = 1; i < 4; ++i) {
    largest = larger(absolute(x[i]), largest);
    poison = poison + (x[i] - x[i]);
  }
  const float bad = sum(poison);
  const float scale = power_of_two_below(bad == 0.0F ? maximum(largest) : 1.0F) * 0x1p-13F;
  const F16 inverse = splat(bad == 0.0F ? 1.0F / scale : 0.0F);
  const F16 magic = splat(12582912.0F);
  I16 total = splat_i(0);
  for (int i = 0; i < 4; ++i) {
    // n + 1.5 · 2^23 holds n in its low bits. A group that is not finite becomes zeros; its factor tells.
    const F16 finite = bad == 0.0F ? x[i] : splat(0.0F);
    const I16 n = as_signed(as_bits(fma(finite, inverse, magic))) - splat_i(0x4b400000);
    const I16 high = shift_right_signed(n + splat_i(128), 8);
    total = total + n;
    store_bytes_even_odd(codes + 16 * i, high);
    store_bytes_even_odd(codes + 64 + 16 * i, n - shift_left(high, 8));
  }
  factors[0] = bad == 0.0F ? scale : __builtin_nanf("");
  factors[1] = scale * static_cast<float>(sum(total)) + bad;
}

static void prepare(const Bf16* x, uint32_t cols, Prepared to, uint32_t row) {
  for (uint32_t group = 0; group < cols / kGroup; ++group) {
    F16 values[4];
    for (int i = 0; i < 4; ++i) values[i] = load(x + group * kGroup + 16 * i);
    const size_t slot = size_t{group} * to.rows + row;
    prepare_group(values, to.codes + slot * prepared_group_bytes<Bf16>(), to.factors + slot * 2);
  }
}

static void prepare(const float* x, uint32_t cols, Prepared to, uint32_t row) {
  for (uint32_t group = 0; group < cols / kGroup; ++group) {
    const size_t slot = size_t{group} * to.rows + row;
    F16 total = splat(0.0F);
    for (int i = 0; i < 4; ++i) total = total + load(x + group * kGroup + 16 * i);
    std::memcpy(to.codes + slot * prepared_group_bytes<float>(), x + group * kGroup, kGroup * sizeof(float));
    to.factors[slot * 2] = 1.0F;
    to.factors[slot * 2 + 1] = sum(total);
  }
}

/// Scales (part 0) or biases (part 1) of a group whose codes take `code_bytes`.
LILY_INLINE F16 group_factor(const std::byte* group, size_t code_bytes, int part) {
  return load(reinterpret_cast<const Bf16*>(group + code_bytes + static_cast<size_t>(part) * 32));
}

/// The group's codes as 16 vectors of four bytes a row, in the order of prepared inputs.
template <int kBits>
LILY_INLINE void unpack_group(const std::byte* group, U16 (&words)[16]) {
  for (int i = 0; i < 8; ++i) {
    if constexpr (kBits == 4) {
      const U16 packed = load_u(group + 64 * i);
      words[2 * i] = packed & 0x0f0f0f0fU;
      words[2 * i + 1] = shift_right(packed, 4) & 0x0f0f0f0fU;
    } else {
      words[2 * i] = load_u(group + 128 * i);
      words[2 * i + 1] = load_u(group + 128 * i + 64);
    }
  }
}

LILY_INLINE I16 broadcast_dword(const std::byte* from) {
  int32_t value;
  std::memcpy(&value, from, 4);
  return splat_i(value);
}

/// acc[m] += scale · x scale · Σ code · n + bias · Σ x for one group and kRows inputs.
template <int kBits, uint32_t kRows>
LILY_INLINE void multiply_group(const U16 (&words)[16], F16 scale, F16 bias, const std::byte* const (&codes)[kRows],
                                const float* const (&factors)[kRows], F16 (&acc)[kRows]) {
  I16 high[kRows];
  I16 low[kRows];
  for (uint32_t m = 0; m < kRows; ++m) high[m] = low[m] = splat_i(0);
  for (int i = 0; i < 16; ++i) {
    for (uint32_t m = 0; m < kRows; ++m) {
      if constexpr (kBits == 4) {
        high[m] = dot4_nibble(high[m], words[i], broadcast_dword(codes[m] + 4 * i));
        low[m] = dot4_nibble(low[m], words[i], broadcast_dword(codes[m] + 64 + 4 * i));
      } else {
        high[m] = dot4_byte(high[m], words[i], broadcast_dword(codes[m] + 4 * i));
        low[m] = dot4_byte(low[m], words[i], broadcast_dword(codes[m] + 64 + 4 * i));
      }
    }
  }
  for (uint32_t m = 0; m < kRows; ++m) {
    const F16 total = to_float(shift_left(high[m], 8) + low[m]);
    acc[m] = fma(total, scale * splat(factors[m][0]), acc[m]);
    acc[m] = fma(bias, splat(factors[m][1]), acc[m]);
  }
}

/// kRows inputs through all groups, sums in registers.
template <int kBits, uint32_t kRows>
static void linear_small(const LinearTile& tile, const uint32_t (&rows)[kRows], float* out) {
  constexpr size_t kBytes = kBits == 4 ? kGroupBytes4 : kGroupBytes8;
  F16 acc[kRows];
  for (uint32_t m = 0; m < kRows; ++m) acc[m] = splat(0.0F);
  for (uint32_t group = 0; group < tile.groups; ++group) {
    const std::byte* packed = tile.block + group * kBytes;
    __builtin_prefetch(packed + 4 * kBytes);
    U16 words[16];
    unpack_group<kBits>(packed, words);
    const std::byte* codes[kRows];
    const float* factors[kRows];
    for (uint32_t m = 0; m < kRows; ++m) {
      const size_t slot = size_t{group} * tile.x.rows + rows[m];
      codes[m] = tile.x.codes + slot * prepared_group_bytes<Bf16>();
      factors[m] = tile.x.factors + slot * 2;
    }
    multiply_group<kBits, kRows>(words, group_factor(packed, kBytes - 64, 0), group_factor(packed, kBytes - 64, 1),
                                 codes, factors, acc);
  }
  for (uint32_t m = 0; m < kRows; ++m) store(out + 16 * m, acc[m]);
}

/// Prepared row of output i.
LILY_INLINE uint32_t tile_row(const LinearTile& tile, uint32_t i) {
  return tile.indices != nullptr ? tile.indices[i] / tile.index_divisor : tile.first + i;
}

constexpr uint32_t kTileRows = 4;

/// Any count: weights of a group are unpacked once and kept while all inputs pass; sums live in tile.out between
/// groups.
template <int kBits>
static void linear_many(const LinearTile& tile) {
  constexpr size_t kBytes = kBits == 4 ? kGroupBytes4 : kGroupBytes8;
  std::memset(tile.out, 0, size_t{tile.count} * 16 * sizeof(float));
  for (uint32_t group = 0; group < tile.groups; ++group) {
    const std::byte* packed = tile.block + group * kBytes;
    U16 words[16];
    unpack_group<kBits>(packed, words);
    const F16 scale = group_factor(packed, kBytes - 64, 0);
    const F16 bias = group_factor(packed, kBytes - 64, 1);
    const std::byte* group_codes = tile.x.codes + size_t{group} * tile.x.rows * prepared_group_bytes<Bf16>();
    const float* group_factors = tile.x.factors + size_t{group} * tile.x.rows * 2;
    uint32_t i = 0;
    for (; i + kTileRows <= tile.count; i += kTileRows) {
      const std::byte* codes[kTileRows];
      const float* factors[kTileRows];
      F16 acc[kTileRows];
      for (uint32_t m = 0; m < kTileRows; ++m) {
        const size_t row = tile_row(tile, i + m);
        codes[m] = group_codes + row * prepared_group_bytes<Bf16>();
        factors[m] = group_factors + row * 2;
        acc[m] = load(tile.out + 16 * (i + m));
      }
      multiply_group<kBits, kTileRows>(words, scale, bias, codes, factors, acc);
      for (uint32_t m = 0; m < kTileRows; ++m) store(tile.out + 16 * (i + m), acc[m]);
    }
    for (; i < tile.count; ++i) {
      const size_t row = tile_row(tile, i);
      const std::byte* codes[1] = {group_codes + row * prepared_group_bytes<Bf16>()};
      const float* factors[1] = {group_factors + row * 2};
      F16 acc[1] = {load(tile.out + 16 * i)};
      multiply_group<kBits, 1>(words, scale, bias, codes, factors, acc);
      store(tile.out + 16 * i, acc[0]);
    }
  }
}

template <int kBits>
static void linear_bits(const LinearTile& tile) {
  // Up to 4 inputs the sums stay in registers through all groups; above that the weights do.
  switch (tile.count) {
    case 0:
      return;
    case 1:
      return linear_small<kBits, 1>(tile, {tile_row(tile, 0)}, tile.out);
    case 2:
      return linear_small<kBits, 2>(tile, {tile_row(tile, 0), tile_row(tile, 1)}, tile.out);
    case 3:
      return linear_small<kBits, 3>(tile, {tile_row(tile, 0), tile_row(tile, 1), tile_row(tile, 2)}, tile.out);
    case 4:
      return linear_small<kBits, 4>(tile, {tile_row(tile, 0), tile_row(tile, 1), tile_row(tile, 2), tile_row(tile, 3)},
                                    tile.out);
    default:
      return linear_many<kBits>(tile);
  }
}

static void linear_bf16(const LinearTile& tile) {
  tile.bits == 4 ? linear_bits<4>(tile) : linear_bits<8>(tile);
}

/// Code of input k of 16 rows as floats.
LILY_INLINE F16 codes_of_input(const std::byte* group, uint32_t bits, uint32_t k) {
  U16 code;
  if (bits == 4) {
    code = shift_right(load_u(group + 64 * (k / 8)), static_cast<int>(4 * (k % 8))) & 15U;
  } else {
    code = shift_right(load_u(group + 64 * (2 * (k / 8) + k % 2)), static_cast<int>(8 * (k % 8 / 2))) & 255U;
  }
  I16 signed_code;
  std::memcpy(&signed_code, &code, sizeof code);
  return to_float(signed_code);
}

/// acc[m] += scale · Σ code · x + bias · Σ x for one group and kRows float inputs; a group is summed in input order.
template <uint32_t kRows>
LILY_INLINE void multiply_float_group(const F16 (&codes)[kGroup], F16 scale, F16 bias, const LinearTile& tile,
                                      uint32_t group, uint32_t i) {
  const float* x[kRows];
  const float* factors[kRows];
  F16 total[kRows];
  for (uint32_t m = 0; m < kRows; ++m) {
    const size_t slot = size_t{group} * tile.x.rows + tile_row(tile, i + m);
    x[m] = reinterpret_cast<const float*>(tile.x.codes + slot * prepared_group_bytes<float>());
    factors[m] = tile.x.factors + slot * 2;
    total[m] = splat(0.0F);
  }
  for (uint32_t k = 0; k < kGroup; ++k)
    for (uint32_t m = 0; m < kRows; ++m) total[m] = fma(codes[k], splat(x[m][k]), total[m]);
  for (uint32_t m = 0; m < kRows; ++m) {
    float* out = tile.out + 16 * (i + m);
    store(out, fma(bias, splat(factors[m][1]), fma(total[m], scale, load(out))));
  }
}

/// Float inputs: codes of a group become floats once and stay in the cache while the inputs pass.
static void linear_f32(const LinearTile& tile) {
  const size_t bytes = tile.bits == 4 ? kGroupBytes4 : kGroupBytes8;
  std::memset(tile.out, 0, size_t{tile.count} * 16 * sizeof(float));
  for (uint32_t group = 0; group < tile.groups; ++group) {
    const std::byte* packed = tile.block + group * bytes;
    F16 codes[kGroup];
    for (uint32_t k = 0; k < kGroup; ++k) codes[k] = codes_of_input(packed, tile.bits, k);
    const F16 scale = group_factor(packed, bytes - 64, 0);
    const F16 bias = group_factor(packed, bytes - 64, 1);
    uint32_t i = 0;
    for (; i + 8 <= tile.count; i += 8) multiply_float_group<8>(codes, scale, bias, tile, group, i);
    for (; i < tile.count; ++i) multiply_float_group<1>(codes, scale, bias, tile, group, i);
  }
}

template <typename T>
static void embed(const std::byte* blocks, uint32_t bits, uint32_t groups, uint32_t row, T* out) {
  const size_t bytes = bits == 4 ? kGroupBytes4 : kGroupBytes8;
  const std::byte* block = blocks + size_t{row / kBlockRows} * groups * bytes;
  const uint32_t lane = row % kBlockRows;
  for (uint32_t group = 0; group < groups; ++group) {
    const std::byte* packed = block + group * bytes;
    float scale[16];
    float bias[16];
    store(scale, group_factor(packed, bytes - 64, 0));
    store(bias, group_factor(packed, bytes - 64, 1));
    float values[kGroup];
    for (uint32_t k = 0; k < kGroup; ++k) {
      uint32_t word;
      const uint32_t index = bits == 4 ? k / 8 : 2 * (k / 8) + k % 2;
      std::memcpy(&word, packed + 64 * index + 4 * lane, 4);
      const uint32_t code = bits == 4 ? (word >> (4 * (k % 8))) & 15U : (word >> (8 * (k % 8 / 2))) & 255U;
      values[k] = static_cast<float>(code);
    }
    for (uint32_t i = 0; i < kGroup; i += 16) {
      store(out + group * kGroup + i, fma(load(values + i), splat(scale[lane]), splat(bias[lane])));
    }
  }
}

}  // namespace lily::cpu::LILY_SIMD_LEVEL
