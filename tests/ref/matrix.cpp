#include "tests/ref/matrix.h"

#include <cstring>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"

namespace lily::ref {
namespace {

double bf16_at(const std::byte* data, size_t index) {
  Bf16 value;
  std::memcpy(&value.bits, data + index * 2, 2);
  return static_cast<double>(to_float(value));
}

/// Codes are packed lowest bits first, so with little-endian words byte order is code order.
uint32_t code_at(const QuantTensor& tensor, size_t index) {
  if (tensor.bits == 8) return std::to_integer<uint32_t>(tensor.codes[index]);
  const auto byte = std::to_integer<uint32_t>(tensor.codes[index / 2]);
  return index % 2 == 0 ? byte & 15U : byte >> 4;
}

}  // namespace

Matrix::Matrix(std::vector<const QuantTensor*> parts, uint32_t expert) : parts_(std::move(parts)), expert_(expert) {
  cols_ = parts_.front()->cols;
  for (const QuantTensor* part : parts_) {
    LILY_CHECK(part->cols == cols_ && expert < part->experts, "{} does not fit its stack", part->name);
    LILY_CHECK(part->bits == 4 || part->bits == 8, "{} has {} bits", part->name, part->bits);
    rows_ += part->rows;
  }
}

void Matrix::read_row(uint32_t row, std::span<double> weights, std::span<double> squares) const {
  const QuantTensor* part = parts_.front();
  for (size_t i = 0; row >= part->rows; part = parts_.at(++i)) row -= part->rows;
  const size_t line = size_t{expert_} * part->rows + row;
  for (uint32_t first = 0; first < cols_; first += kQuantGroup) {
    const size_t group = (line * cols_ + first) / kQuantGroup;
    const double scale = bf16_at(part->scales, group);
    const double bias = bf16_at(part->biases, group);
    for (uint32_t col = first; col < first + kQuantGroup; ++col) {
      const double scaled = code_at(*part, line * cols_ + col) * scale;
      weights[col] = scaled + bias;
      if (!squares.empty()) squares[col] = scaled * scaled + bias * bias;
    }
  }
}

Values plain_values(const PlainTensor& tensor) {
  size_t count = 1;
  for (const uint32_t extent : tensor.shape) count *= extent;
  Values values(count);
  for (size_t i = 0; i < count; ++i) {
    if (tensor.dtype == PlainTensor::Dtype::kBf16) {
      values[i] = bf16_at(tensor.data, i);
    } else {
      float value = 0;
      std::memcpy(&value, tensor.data + i * 4, 4);
      values[i] = static_cast<double>(value);
    }
    if (tensor.shift_by_one) values[i] = round_bf16(1.0 + values[i]);
  }
  return values;
}

}  // namespace lily::ref
