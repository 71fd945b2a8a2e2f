// Numbers of the reference: rows of doubles, and the one rounding that the plan's activation type asks for.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lily::ref {

/// Row-major [rows, width] or whatever the function says.
using Values = std::vector<double>;

/// How activations are stored between ops: kNone keeps doubles (the limit of f32), kBf16 rounds to nearest even.
enum class Rounding : uint8_t { kNone, kBf16 };

/// The exponent of the last place of a finite bf16 of this magnitude: 8 significant bits, fewer below 2^-126.
inline int last_place_bf16(double value) {
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  return std::max(exponent - 8, -133);
}

/// Rounds a double to bf16 in one step, ties to even. No test comes near overflow.
inline double round_bf16(double value) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  const int place = last_place_bf16(value);
  return std::ldexp(std::nearbyint(std::ldexp(value, -place)), place);
}

inline double rounded(double value, Rounding rounding) {
  return rounding == Rounding::kBf16 ? round_bf16(value) : value;
}

/// Half a unit in the last place of bf16 at this magnitude: what one rounding may cost.
inline double half_ulp_bf16(double value) {
  if (value == 0.0 || !std::isfinite(value)) return 0.0;
  return std::ldexp(0.5, last_place_bf16(value));
}

inline double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
inline double silu(double x) {
  return x * sigmoid(x);
}
inline double softplus(double x) {
  return x > 20.0 ? x : std::log1p(std::exp(x));
}

/// Row `row` of a row-major array.
inline std::span<const double> row_of(const Values& values, size_t row, size_t width) {
  return std::span<const double>(values).subspan(row * width, width);
}
inline std::span<double> row_of(Values& values, size_t row, size_t width) {
  return std::span<double>(values).subspan(row * width, width);
}

}  // namespace lily::ref
