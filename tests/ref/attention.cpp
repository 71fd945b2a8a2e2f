#include "tests/ref/attention.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tests/ref/linear.h"

namespace lily::ref {
namespace {

/// round(turn(round(norm(head)))), in place.
void norm_and_turn(const AttentionParams& params, const Values& gain, uint32_t position, std::span<double> head) {
  Values normed = rms_norm(Values(head.begin(), head.end()), gain, params.eps);
  round_all(normed, params.rounding);
  turn(params, position, normed);
  round_all(normed, params.rounding);
  std::ranges::copy(normed, head.begin());
}

}  // namespace

float rope_angle(const AttentionParams& params, uint32_t position, uint32_t pair) {
  const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(params.rotary_dim);
  const auto frequency = static_cast<float>(std::pow(static_cast<double>(params.theta), exponent));
  return static_cast<float>(position) * frequency;
}

void turn(const AttentionParams& params, uint32_t position, std::span<double> head) {
  const uint32_t half = params.rotary_dim / 2;
  for (uint32_t j = 0; j < half; ++j) {
    const auto angle = static_cast<double>(rope_angle(params, position, j));
    const double low = head[j];
    const double high = head[j + half];
    head[j] = low * std::cos(angle) - high * std::sin(angle);
    head[j + half] = high * std::cos(angle) + low * std::sin(angle);
  }
}

Values qk_norm_rope_append(const AttentionParams& params, const Values& proj, uint32_t first_position, KvLists& lists) {
  const size_t width = params.proj_width();
  const size_t dim = params.head_dim;
  const size_t kept = size_t{first_position} * params.kv_dim();
  LILY_CHECK(lists.keys.size() >= kept, "attention: position {} follows a list of {} values", first_position,
             lists.keys.size());
  lists.keys.resize(kept);
  lists.values.resize(kept);
  const size_t rows = proj.size() / width;
  Values query(rows * params.query_dim());
  for (size_t r = 0; r < rows; ++r) {
    const auto row = row_of(proj, r, width);
    const uint32_t position = first_position + static_cast<uint32_t>(r);
    for (size_t h = 0; h < params.query_heads; ++h) {
      const auto head = std::span(query).subspan(r * params.query_dim() + h * dim, dim);
      std::ranges::copy(row.subspan(2 * h * dim, dim), head.begin());
      norm_and_turn(params, params.q_norm, position, head);
    }
    const auto key_row = row.subspan(size_t{2} * params.query_dim(), params.kv_dim());
    const auto value_row = row.subspan(size_t{2} * params.query_dim() + params.kv_dim(), params.kv_dim());
    lists.keys.insert(lists.keys.end(), key_row.begin(), key_row.end());
    lists.values.insert(lists.values.end(), value_row.begin(), value_row.end());
    for (size_t h = 0; h < params.kv_heads; ++h) {
      norm_and_turn(params, params.k_norm, position,
                    std::span(lists.keys).subspan(size_t{position} * params.kv_dim() + h * dim, dim));
    }
  }
  return query;
}

Values attention(const AttentionParams& params, const Values& query, const Values& proj, uint32_t first_position,
                 const KvLists& lists) {
  const size_t dim = params.head_dim;
  const size_t kv_dim = params.kv_dim();
  const size_t rows = query.size() / params.query_dim();
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  Values out(query.size());
  for (size_t r = 0; r < rows; ++r) {
    const size_t seen = first_position + r + 1;
    for (size_t h = 0; h < params.query_heads; ++h) {
      const size_t kv_at = h / (params.query_heads / params.kv_heads) * dim;
      const auto q = std::span(query).subspan(r * params.query_dim() + h * dim, dim);
      Values weights(seen);
      for (size_t t = 0; t < seen; ++t) {
        double score = 0;
        for (size_t d = 0; d < dim; ++d) score += q[d] * lists.keys[t * kv_dim + kv_at + d];
        weights[t] = score * scale;
      }
      const double top = *std::ranges::max_element(weights);
      double total = 0;
      for (double& weight : weights) total += weight = std::exp(weight - top);
      const auto o = std::span(out).subspan(r * params.query_dim() + h * dim, dim);
      for (size_t t = 0; t < seen; ++t) {
        for (size_t d = 0; d < dim; ++d) o[d] += weights[t] / total * lists.values[t * kv_dim + kv_at + d];
      }
      for (size_t d = 0; d < dim; ++d) o[d] *= sigmoid(proj[r * params.proj_width() + (2 * h + 1) * dim + d]);
    }
  }
  return out;
}

}  // namespace lily::ref
