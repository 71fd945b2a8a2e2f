#include "engine/sampling.h"

#include <cmath>
#include <random>
#include <string_view>

#include "model/sampling_limits.h"

namespace lily {
namespace {

Failure out_of_range(std::string_view field, double value, std::string_view expected) {
  Failure failure = invalid("{} is {}, expected {}", field, value, expected);
  failure.param = field;
  return failure;
}

/// The first value that is set.
template <typename T>
T pick(const std::optional<T>& asked, const std::optional<T>& usual, T neutral) {
  return asked ? *asked : usual.value_or(neutral);
}

Result<void> resolve_bias(const SamplingOptions& options, uint32_t vocabulary, SampleParams& params) {
  constexpr double kBan = -100;
  for (const auto& [id, bias] : options.logit_bias) {
    if (id >= vocabulary) {
      Failure failure =
          invalid("logit_bias names token {}, expected an id below the vocabulary size {}", id, vocabulary);
      failure.param = "logit_bias";
      return failure;
    }
    if (!kLogitBiasLimits.holds(bias)) {
      Failure failure = invalid("logit_bias of token {} is {}, expected {}", id, bias, kLogitBiasLimits.text);
      failure.param = "logit_bias";
      return failure;
    }
    if (bias == kBan) {
      params.banned.push_back(id);
    } else {
      params.bias.emplace_back(id, static_cast<float>(bias));
    }
  }
  return {};
}

}  // namespace

SamplingOptions default_sampling(const GenerationDefaults& defaults) {
  SamplingOptions options;
  const auto widen = [](const auto& value) {
    return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
  };
  options.temperature = defaults.do_sample == false ? std::optional<double>(0.0) : widen(defaults.temperature);
  if (defaults.top_k) {
    options.top_k = *defaults.top_k;
  }
  options.top_p = widen(defaults.top_p);
  options.min_p = widen(defaults.min_p);
  options.presence_penalty = widen(defaults.presence_penalty);
  options.repetition_penalty = widen(defaults.repetition_penalty);
  return options;
}

Result<SampleParams> resolve_sampling(const SamplingOptions& options, const SamplingOptions& defaults,
                                      uint32_t vocabulary) {
  const double temperature = pick(options.temperature, defaults.temperature, 1.0);
  const auto top_k = pick<int64_t>(options.top_k, defaults.top_k, 0);
  const double top_p = pick(options.top_p, defaults.top_p, 1.0);
  const double min_p = pick(options.min_p, defaults.min_p, 0.0);
  const double presence = pick(options.presence_penalty, defaults.presence_penalty, 0.0);
  const double frequency = pick(options.frequency_penalty, defaults.frequency_penalty, 0.0);
  const double repetition = pick(options.repetition_penalty, defaults.repetition_penalty, 1.0);
  const struct {
    std::string_view field;
    double value;
    const SamplingLimits& limits;
  } checks[] = {
      {"temperature", temperature, kTemperatureLimits},
      {"top_k", static_cast<double>(top_k), kTopKLimits},
      {"top_p", top_p, kTopPLimits},
      {"min_p", min_p, kMinPLimits},
      {"presence_penalty", presence, kPresencePenaltyLimits},
      {"frequency_penalty", frequency, kFrequencyPenaltyLimits},
      {"repetition_penalty", repetition, kRepetitionPenaltyLimits},
  };
  for (const auto& check : checks) {
    if (!check.limits.holds(check.value)) {
      return out_of_range(check.field, check.value, check.limits.text);
    }
  }

  SampleParams params;
  params.temperature = static_cast<float>(temperature);
  params.top_k = top_k <= 0 || top_k >= vocabulary ? 0 : static_cast<uint32_t>(top_k);
  params.top_p = static_cast<float>(top_p);
  if (top_p == 0) {  // the smallest set that reaches 0 is the most likely token
    params.top_k = 1;
    params.top_p = 1.0F;
  }
  params.min_p = static_cast<float>(min_p);
  params.presence_penalty = static_cast<float>(presence);
  params.frequency_penalty = static_cast<float>(frequency);
  params.repetition_penalty = static_cast<float>(repetition);
  params.seed = options.seed.value_or(0);
  params.vocabulary = vocabulary;
  if (auto bias = resolve_bias(options, vocabulary, params); !bias) {
    return bias.failure();
  }
  return params;
}

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32U) | device();
}

}  // namespace lily
