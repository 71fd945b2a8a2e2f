#include "tests/ref/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/ref/linear.h"

namespace lily::ref {
namespace {

Values one_row(const Values& values, size_t row, size_t width) {
  const auto span = row_of(values, row, width);
  return {span.begin(), span.end()};
}

}  // namespace

NormedLogits norm_router(const Matrix& router, const Values& gain, double eps, const Values& residual,
                         Rounding rounding) {
  NormedLogits out;
  out.normed = final_norm(residual, gain, eps, rounding);
  out.logits = linear(router, out.normed);
  return out;
}

Routing router_top_k(const Values& logits, uint32_t experts, uint32_t chosen) {
  const size_t width = size_t{experts} + 1;
  Routing routing;
  for (size_t r = 0; r < logits.size() / width; ++r) {
    const auto row = row_of(logits, r, width);
    std::vector<uint32_t> order(experts);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return row[a] > row[b]; });
    double total = 0;
    for (uint32_t j = 0; j < chosen; ++j) total += std::exp(row[order[j]] - row[order[0]]);
    for (uint32_t j = 0; j < chosen; ++j) {
      routing.experts.push_back(order[j]);
      routing.scores.push_back(std::exp(row[order[j]] - row[order[0]]) / total);
    }
    routing.scores.push_back(sigmoid(row[experts]));
  }
  return routing;
}

std::vector<uint32_t> expert_group(const std::vector<uint32_t>& chosen, uint32_t experts) {
  std::vector<uint32_t> groups{0};
  std::vector<uint32_t> pairs;
  for (uint32_t expert = 0; expert < experts; ++expert) {
    for (uint32_t pair = 0; pair < chosen.size(); ++pair) {
      if (chosen[pair] == expert) pairs.push_back(pair);
    }
    groups.push_back(static_cast<uint32_t>(pairs.size()));
  }
  groups.insert(groups.end(), pairs.begin(), pairs.end());
  return groups;
}

Values gate_up(const Matrix& weight, const Values& x) {
  const Values both = linear(weight, x);
  const size_t width = weight.rows() / 2;
  Values out(both.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto row = row_of(both, i / width, 2 * width);
    out[i] = silu(row[i % width]) * row[width + i % width];
  }
  return out;
}

ExpertHidden expert_gate_up(const ExpertWeights& weights, const Values& normed, const std::vector<uint32_t>& chosen,
                            Rounding rounding) {
  const size_t width = weights.shared_gate_up.cols();
  const size_t rows = normed.size() / width;
  const size_t choices = chosen.size() / rows;
  ExpertHidden out;
  for (size_t pair = 0; pair < chosen.size(); ++pair) {
    const Values hidden = gate_up(Matrix(weights.gate_up, chosen[pair]), one_row(normed, pair / choices, width));
    out.hidden.insert(out.hidden.end(), hidden.begin(), hidden.end());
  }
  out.shared = gate_up(weights.shared_gate_up, normed);
  round_all(out.hidden, rounding);
  round_all(out.shared, rounding);
  return out;
}

void expert_down_combine(const ExpertWeights& weights, const ExpertHidden& hidden, const Routing& routing,
                         Values& residual, Rounding rounding) {
  const size_t width = weights.shared_down.rows();
  const size_t inner = weights.down.front()->cols;
  const size_t rows = residual.size() / width;
  const size_t choices = routing.experts.size() / rows;
  const Values shared = linear(weights.shared_down, hidden.shared);
  for (size_t r = 0; r < rows; ++r) {
    Values sum = one_row(residual, r, width);
    for (size_t j = 0; j < choices; ++j) {
      const size_t pair = r * choices + j;
      const Values part = linear(Matrix(weights.down, routing.experts[pair]), one_row(hidden.hidden, pair, inner));
      for (size_t c = 0; c < width; ++c) sum[c] += routing.scores[r * (choices + 1) + j] * part[c];
    }
    for (size_t c = 0; c < width; ++c) {
      sum[c] += routing.scores[r * (choices + 1) + choices] * shared[r * width + c];
      residual[r * width + c] = rounded(sum[c], rounding);
    }
  }
}

}  // namespace lily::ref
