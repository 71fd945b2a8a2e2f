#include "model/weights.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "model/checkpoint.h"

namespace lily {
namespace {

Bf16 load_bf16(const std::byte* at) {
  Bf16 value;
  std::memcpy(&value.bits, at, sizeof(value.bits));
  return value;
}

}  // namespace

float QuantView::at(uint32_t row, uint32_t col) const {
  LILY_CHECK(row < rows && col < cols, "element [{}, {}] of a matrix of [{}, {}]", row, col, rows, cols);
  const std::byte* codes_of_row = codes + row * code_row_bytes();
  uint32_t code = 0;
  if (bits == 8) {
    code = static_cast<uint32_t>(codes_of_row[col]);
  } else {
    // Words are little-endian with the lowest bits first, so byte c / 2 holds codes c (low) and c + 1 (high).
    code = (static_cast<uint32_t>(codes_of_row[col / 2]) >> (4 * (col % 2))) & 15U;
  }
  const size_t group = size_t{row} * groups_per_row() + col / kQuantGroup;
  return to_float(load_bf16(scales + group * 2)) * static_cast<float>(code) + to_float(load_bf16(biases + group * 2));
}

QuantView QuantTensor::expert(uint32_t index) const {
  LILY_CHECK(index < experts, "expert {} of {} in {}", index, experts, name);
  QuantView view{.bits = bits, .rows = rows, .cols = cols, .codes = codes, .scales = scales, .biases = biases};
  view.codes += index * view.code_bytes();
  view.scales += index * view.scale_bytes();
  view.biases += index * view.scale_bytes();
  return view;
}

uint64_t QuantTensor::bytes() const {
  const QuantView one = expert(0);
  return uint64_t{experts} * (one.code_bytes() + 2 * one.scale_bytes());
}

size_t PlainTensor::size() const {
  size_t count = 1;
  for (const uint32_t extent : shape) {
    count *= extent;
  }
  return count;
}

float PlainTensor::at(size_t index) const {
  LILY_CHECK(index < size(), "element {} of {} in {}", index, size(), name);
  float value = 0;
  if (dtype == Dtype::kF32) {
    std::memcpy(&value, data + index * sizeof(float), sizeof(float));
  } else {
    value = to_float(load_bf16(data + index * 2));
  }
  // Converters add the one in bf16; doing the same makes both layouts equal bit for bit.
  return shift_by_one ? to_float(to_bf16(value + 1.0F)) : value;
}

std::vector<float> PlainTensor::values() const {
  std::vector<float> all(size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = at(i);
  }
  return all;
}

ModelWeights::ModelWeights(std::shared_ptr<const Checkpoint> checkpoint, Parts parts)
    : checkpoint_(std::move(checkpoint)), parts_(std::move(parts)) {}

uint64_t ModelWeights::file_bytes() const {
  return checkpoint_->file_bytes();
}

std::string ModelWeights::identity() const {
  // Settings that change results but no tensor.
  uint64_t mixed = checkpoint_->fingerprint();
  for (const uint32_t setting : {std::bit_cast<uint32_t>(shape().rope_theta), std::bit_cast<uint32_t>(shape().rms_eps),
                                 shape().experts_per_token}) {
    mixed = (std::rotl(mixed, 23) ^ setting) * 0x9e3779b97f4a7c15U;
  }
  return fmt::format("{:016x}", mixed);
}

void ModelWeights::release(const QuantTensor& tensor) const {
  const QuantView one = tensor.expert(0);
  checkpoint_->release({tensor.codes, tensor.experts * one.code_bytes()});
  checkpoint_->release({tensor.scales, tensor.experts * one.scale_bytes()});
  checkpoint_->release({tensor.biases, tensor.experts * one.scale_bytes()});
}

}  // namespace lily
