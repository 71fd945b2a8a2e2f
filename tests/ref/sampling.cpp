#include "tests/ref/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lily::ref {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void forbid(Values& values, const SampleParams& params) {
  for (size_t id = 0; id < values.size(); ++id) {
    const bool masked = params.mask != nullptr && ((params.mask[id / 32] >> (id % 32)) & 1U) == 0;
    if (masked || id >= params.vocabulary) values[id] = kNever;
  }
  for (const uint32_t id : params.banned) values[id] = kNever;
}

void penalise(Values& values, const SampleParams& params, std::span<const uint32_t> counts) {
  const auto repetition = static_cast<double>(params.repetition_penalty);
  for (size_t id = 0; id < counts.size(); ++id) {
    const uint32_t generated = counts[id] & ~kPromptBit;
    if (counts[id] != 0) values[id] = values[id] > 0 ? values[id] / repetition : values[id] * repetition;
    if (generated > 0) {
      values[id] -= static_cast<double>(params.presence_penalty);
      values[id] -= static_cast<double>(params.frequency_penalty) * generated;
    }
  }
}

/// exp(value - max) over the sum; -infinity becomes 0.
Values softmax(const Values& values) {
  const double top = *std::ranges::max_element(values);
  Values out(values.size());
  double total = 0;
  for (size_t i = 0; i < values.size(); ++i) total += out[i] = std::exp(values[i] - top);
  for (double& value : out) value /= total;
  return out;
}

void keep_only(Values& values, const std::vector<uint32_t>& kept) {
  Values left(values.size(), 0.0);
  for (const uint32_t id : kept) left[id] = values[id];
  const double total = std::accumulate(left.begin(), left.end(), 0.0);
  for (double& value : left) value /= total;
  values = left;
}

}  // namespace

std::vector<uint32_t> largest(const Values& values, size_t count) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return values[a] > values[b]; });
  order.resize(std::min(count, order.size()));
  return order;
}

int32_t argmax(const Values& values) {
  int32_t best = -1;
  double top = kNever;
  for (size_t id = 0; id < values.size(); ++id) {
    if (values[id] > top) {
      top = values[id];
      best = static_cast<int32_t>(id);
    }
  }
  return best;
}

Values penalised_logits(std::span<const float> logits, const SampleParams& params, std::span<const uint32_t> counts) {
  Values values(logits.begin(), logits.end());
  for (const auto& [id, bias] : params.bias) values[id] += static_cast<double>(bias);
  forbid(values, params);
  if (params.counts_tokens()) penalise(values, params, counts);
  return values;
}

Values token_distribution(std::span<const float> logits, const SampleParams& params, std::span<const uint32_t> counts) {
  Values values = penalised_logits(logits, params, counts);
  if (params.temperature == 0.0F) {
    Values sure(values.size(), 0.0);
    sure[static_cast<size_t>(argmax(values))] = 1.0;
    return sure;
  }
  for (double& value : values) value /= static_cast<double>(params.temperature);
  Values probability = softmax(values);
  if (params.top_k > 0) keep_only(probability, largest(values, params.top_k));
  if (params.top_p < 1.0F) {
    std::vector<uint32_t> order = largest(probability, probability.size());
    size_t kept = 0;
    for (double sum = 0; kept < order.size() && (kept == 0 || sum < static_cast<double>(params.top_p)); ++kept) {
      sum += probability[order[kept]];
    }
    order.resize(kept);
    keep_only(probability, order);
  }
  if (params.min_p > 0.0F) {
    const double least = static_cast<double>(params.min_p) * *std::ranges::max_element(probability);
    std::vector<uint32_t> kept;
    for (uint32_t id = 0; id < probability.size(); ++id) {
      if (probability[id] >= least) kept.push_back(id);
    }
    keep_only(probability, kept);
  }
  return probability;
}

Values log_probabilities(std::span<const float> logits) {
  Values values(logits.begin(), logits.end());
  const double top = *std::ranges::max_element(values);
  double total = 0;
  for (const double value : values) total += std::exp(value - top);
  for (double& value : values) value -= top + std::log(total);
  return values;
}

}  // namespace lily::ref
