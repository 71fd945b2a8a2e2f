// MLX affine quantisation as its GPU kernels do it: what published checkpoints were made with, and what test
// checkpoints are made with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bf16.h"

namespace lily::test {

/// Quantises one group. `codes` receives one code an element, each below 2^bits; scale and bias are rounded to bf16 at
/// the end.
void quantise_group(std::span<const float> weights, uint32_t bits, std::span<uint8_t> codes, Bf16& scale, Bf16& bias);

/// A row in storage form: packed words, then one scale and one bias a group of 64. The length is a multiple of 64.
struct QuantisedRow {
  std::vector<uint32_t> words;
  std::vector<Bf16> scales;
  std::vector<Bf16> biases;
};
void quantise_row(std::span<const float> weights, uint32_t bits, QuantisedRow& out);

}  // namespace lily::test
