// Reference of sample, all but the draw: from a row of logits to the distribution the token is drawn from, the argmax,
// and the log-probabilities of the raw logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/step.h"
#include "tests/ref/values.h"

namespace lily::ref {

constexpr uint32_t kPromptBit = 1U << 31;  // of a token count: the prompt holds the token

/// The logits after bias, mask, banned and padding ids (-infinity where a token is not allowed) and penalties:
/// repetition first, then presence and frequency. `counts` [V] as in the token_counts buffer, or empty.
Values penalised_logits(std::span<const float> logits, const SampleParams& params, std::span<const uint32_t> counts);

/// The distribution of the drawn token [V]: penalised logits, temperature, top-k, top-p over what top-k left, min-p
/// relative to the largest. Temperature 0: all on the argmax.
Values token_distribution(std::span<const float> logits, const SampleParams& params, std::span<const uint32_t> counts);

/// The largest value's index, ties to the lower; -1 where no value is above -infinity.
int32_t argmax(const Values& values);

/// log softmax of the raw logits.
Values log_probabilities(std::span<const float> logits);

/// The `count` indices of the largest values, falling, ties to the lower index.
std::vector<uint32_t> largest(const Values& values, size_t count);

}  // namespace lily::ref
