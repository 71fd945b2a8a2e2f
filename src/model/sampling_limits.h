// The ranges of the sampling fields: one table for a model's own defaults and for what users ask.
#pragma once

#include <string_view>

namespace lily {

struct SamplingLimits {
  double low;
  double high;
  std::string_view text;  // as messages say it

  /// Written so that NaN is outside.
  constexpr bool holds(double value) const { return value >= low && value <= high; }
};

inline constexpr SamplingLimits kTemperatureLimits{0, 2, "0 to 2"};
inline constexpr SamplingLimits kTopKLimits{-1, 1e9, "-1 or 0 (off), or a count of at least 1"};
inline constexpr SamplingLimits kTopPLimits{0, 1, "0 to 1"};
inline constexpr SamplingLimits kMinPLimits{0, 1, "0 to 1"};
inline constexpr SamplingLimits kPresencePenaltyLimits{-2, 2, "-2 to 2"};
inline constexpr SamplingLimits kFrequencyPenaltyLimits{-2, 2, "-2 to 2"};
/// A divisor: nothing so small that a logit overflows.
inline constexpr SamplingLimits kRepetitionPenaltyLimits{0.01, 10, "0.01 to 10"};
inline constexpr SamplingLimits kLogitBiasLimits{-100, 100, "-100 to 100"};

}  // namespace lily
