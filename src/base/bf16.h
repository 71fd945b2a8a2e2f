// bfloat16 as a storage type: the upper half of an IEEE single, rounded to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace lily {

/// Storage of one bfloat16; converts explicitly, does no arithmetic.
struct Bf16 {
  uint16_t bits = 0;
};

constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
constexpr float to_float(float value) {
  return value;
}

/// Rounds to nearest, ties to even; NaN stays NaN.
constexpr Bf16 to_bf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40U)};
  }
  bits += 0x7fffU + ((bits >> 16) & 1U);
  return {static_cast<uint16_t>(bits >> 16)};
}

}  // namespace lily
