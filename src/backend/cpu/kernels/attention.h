// Attention of the query heads of one row that share a KV head. Keys and values are read in 64-token blocks at absolute
// positions; scores of one span of 512 tokens are held at a time, and spans are merged in order, so the result depends
// on the position alone.
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace lily::cpu::LILY_SIMD_LEVEL {

constexpr uint32_t kBlockElements = kKvBlock * kHeadDim;

/// sums[h][64] += Σ_i a[h][i] · b[i][64 lanes] over n rows of b, kHeads rows of a; b rows are b_stride apart.
template <uint32_t kHeads, typename T>
LILY_INLINE void outer_64(const float* a, size_t a_stride, const T* b, size_t b_stride, uint32_t n,
                          F16 (&sums)[kHeads][4]) {
  for (uint32_t i = 0; i < n; ++i) {
    F16 row[4];
    for (uint32_t lane = 0; lane < 4; ++lane) row[lane] = load(b + i * b_stride + 16 * lane);
    for (uint32_t h = 0; h < kHeads; ++h) {
      const F16 factor = splat(a[size_t{h} * a_stride + i]);
      for (uint32_t lane = 0; lane < 4; ++lane) sums[h][lane] = fma(factor, row[lane], sums[h][lane]);
    }
  }
}

/// Running result of one head: maximum, Σ e^(s - maximum), and the weighted values.
struct RunningHead {
  float maximum;
  float weight;
  float* values;  // [256]
};

/// scores[h][t] = q_h · k_t / 16 for the span, in whole blocks; lanes beyond count hold garbage.
template <uint32_t kHeads, typename T>
LILY_INLINE void span_scores(const AttentionArgs<T>& a, const float* query, uint32_t first, uint32_t count,
                             float* scores) {
  for (uint32_t token = 0; token < count; token += kKvBlock) {
    const uint32_t block = a.blocks[(first + token) / kKvBlock];
    const T* keys = a.keys + (size_t{block} * a.kv_heads + a.kv_head) * kBlockElements;
    F16 sums[kHeads][4];
    for (auto& head : sums)
      for (auto& lane : head) lane = splat(0.0F);
    outer_64<kHeads>(query, kHeadDim, keys, kKvBlock, kHeadDim, sums);
    for (uint32_t h = 0; h < kHeads; ++h)
      for (uint32_t lane = 0; lane < 4; ++lane)
        store(scores + size_t{h} * kAttentionSpan + token + 16 * lane, sums[h][lane] * splat(0.0625F));
  }
}

/// Turns count scores into weights e^(s - max); lanes beyond count become 0. A NaN score makes the sum NaN.
LILY_INLINE void span_softmax(float* scores, uint32_t count, float* maximum_out, float* sum_out) {
  const uint32_t padded = (count + 15) / 16 * 16;
  for (uint32_t i = count; i < padded; ++i) scores[i] = -__builtin_inff();
  F16 best = load(scores);
  for (uint32_t i = 16; i < padded; i += 16) best = larger(load(scores + i), best);
  const F16 top = splat(maximum(best));
  F16 total = splat(0.0F);
  for (uint32_t i = 0; i < padded; i += 16) {
    const F16 weight = exponential(load(scores + i) - top);
    store(scores + i, weight);
    total = total + weight;
  }
  *maximum_out = first_lane(top);
  *sum_out = sum(total);
}

/// values[h][256] = Σ_t weights[h][t] · V[t].
template <uint32_t kHeads, typename T>
LILY_INLINE void span_values(const AttentionArgs<T>& a, const float* weights, uint32_t first, uint32_t count,
                             float* values) {
  for (uint32_t dim = 0; dim < kHeadDim; dim += 64) {
    F16 sums[kHeads][4];
    for (auto& head : sums)
      for (auto& lane : head) lane = splat(0.0F);
    for (uint32_t token = 0; token < count; token += kKvBlock) {
      const uint32_t block = a.blocks[(first + token) / kKvBlock];
      const T* from = a.values + (size_t{block} * a.kv_heads + a.kv_head) * kBlockElements + dim;
      const uint32_t n = count - token < kKvBlock ? count - token : kKvBlock;
      outer_64<kHeads>(weights + token, kAttentionSpan, from, kHeadDim, n, sums);
    }
    for (uint32_t h = 0; h < kHeads; ++h)
      for (uint32_t lane = 0; lane < 4; ++lane) store(values + size_t{h} * kHeadDim + dim + 16 * lane, sums[h][lane]);
  }
}

/// running <- running merged with a span's (maximum, weight, values): both are scaled to the larger maximum.
LILY_INLINE void merge_span(RunningHead& running, float maximum, float weight, const float* values) {
  const float top = running.maximum > maximum ? running.maximum : maximum;
  const float keep = first_lane(exponential(splat(running.maximum - top)));
  const float join = first_lane(exponential(splat(maximum - top)));
  running.maximum = top;
  running.weight = running.weight * keep + weight * join;
  for (uint32_t i = 0; i < kHeadDim; i += 16)
    store(running.values + i, fma(load(values + i), splat(join), load(running.values + i) * splat(keep)));
}

template <uint32_t kHeads, typename T>
static void attention_heads(const AttentionArgs<T>& a) {
  float* query = a.scratch;
  float* scores = query + kHeads * kHeadDim;
  float* span = scores + kHeads * kAttentionSpan;
  float total[kHeads * kHeadDim];
  RunningHead running[kHeads] = {};
  for (uint32_t i = 0; i < kHeads * kHeadDim; i += 16) store(query + i, load(a.query + i));
  for (uint32_t first = 0; first < a.positions; first += kAttentionSpan) {
    const uint32_t count = a.positions - first < kAttentionSpan ? a.positions - first : kAttentionSpan;
    span_scores<kHeads>(a, query, first, count, scores);
    float tops[kHeads];
    float sums[kHeads];
    for (uint32_t h = 0; h < kHeads; ++h) span_softmax(scores + h * kAttentionSpan, count, &tops[h], &sums[h]);
    if (first == 0) {
      span_values<kHeads>(a, scores, first, count, total);
      for (uint32_t h = 0; h < kHeads; ++h) running[h] = {tops[h], sums[h], total + h * kHeadDim};
    } else {
      span_values<kHeads>(a, scores, first, count, span);
      for (uint32_t h = 0; h < kHeads; ++h) merge_span(running[h], tops[h], sums[h], span + h * kHeadDim);
    }
  }
  for (uint32_t h = 0; h < kHeads; ++h) {
    const F16 inverse = splat(1.0F / running[h].weight);
    for (uint32_t i = 0; i < kHeadDim; i += 16)
      store(a.out + h * kHeadDim + i,
            load(total + h * kHeadDim + i) * inverse * sigmoid(load(a.gate + h * a.gate_stride + i)));
  }
}

template <typename T>
static void attention(const AttentionArgs<T>& args) {
  switch (args.heads) {
    case 1:
      return attention_heads<1>(args);
    case 2:
      return attention_heads<2>(args);
    case 3:
      return attention_heads<3>(args);
    default:
      return attention_heads<4>(args);
  }
}

}  // namespace lily::cpu::LILY_SIMD_LEVEL
