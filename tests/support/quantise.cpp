#include "tests/support/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "model/shape.h"

namespace lily::test {

void quantise_group(std::span<const float> weights, uint32_t bits, std::span<uint8_t> codes, Bf16& scale, Bf16& bias) {
  const auto max_code = static_cast<float>((1U << bits) - 1);
  float low = weights[0];
  float high = 0;  // the kernels' running maximum starts at 0
  for (const float weight : weights) {
    low = std::min(low, weight);
    high = std::max(high, weight);
  }
  const bool negative = std::abs(low) > std::abs(high);
  float step = std::max((high - low) / max_code, 1e-7F);
  step = negative ? step : -step;
  const float edge = negative ? low : high;
  const float edge_code = std::round(edge / step);
  float offset = 0;
  if (edge_code != 0) {
    step = edge / edge_code;
    offset = edge;
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    // Half away from zero.
    const float quotient = std::round((weights[i] - offset) / step);
    codes[i] = static_cast<uint8_t>(std::clamp(quotient, 0.0F, max_code));
  }
  scale = to_bf16(step);
  bias = to_bf16(offset);
}

void quantise_row(std::span<const float> weights, uint32_t bits, QuantisedRow& out) {
  LILY_CHECK(weights.size() % kQuantGroup == 0, "a row of {} is not made of groups of {}", weights.size(), kQuantGroup);
  const size_t groups = weights.size() / kQuantGroup;
  out.words.assign(weights.size() * bits / 32, 0);
  out.scales.resize(groups);
  out.biases.resize(groups);
  std::array<uint8_t, kQuantGroup> codes{};
  for (size_t group = 0; group < groups; ++group) {
    quantise_group(weights.subspan(group * kQuantGroup, kQuantGroup), bits, codes, out.scales[group],
                   out.biases[group]);
    for (size_t i = 0; i < kQuantGroup; ++i) {
      // A bit stream, lowest bits first; for 4 and 8 bits no code straddles words, for others (made to be refused) it
      // may.
      const size_t bit = (group * kQuantGroup + i) * bits;
      out.words[bit / 32] |= uint32_t{codes[i]} << (bit % 32);
      if (bit % 32 + bits > 32) {
        out.words[bit / 32 + 1] |= uint32_t{codes[i]} >> (32 - bit % 32);
      }
    }
  }
}

}  // namespace lily::test
