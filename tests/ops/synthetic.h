// Synthetic weights and activations: random codes, scales of both signs, realistic magnitudes, pointers at odd
// addresses. Everything is a function of the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/weights.h"
#include "plan/plan.h"
#include "tests/ref/values.h"

namespace lily::ops {

using ref::Values;

struct QuantDims {
  uint32_t experts = 1;
  uint32_t rows = 0;
  uint32_t cols = 0;
  uint32_t bits = 4;
};

/// Owns one quantised tensor. A product with inputs of unit variance has about unit variance.
class QuantStore {
 public:
  QuantStore(std::string name, const QuantDims& dims, uint32_t seed);
  QuantStore(const QuantStore&) = delete;
  QuantStore& operator=(const QuantStore&) = delete;
  const QuantTensor& tensor() const { return tensor_; }

 private:
  std::vector<std::byte> codes_;
  std::vector<std::byte> scales_;
  std::vector<std::byte> biases_;
  QuantTensor tensor_;
};

/// Owns one plain tensor with the given values, rounded to its type.
class PlainStore {
 public:
  PlainStore(std::string name, std::vector<uint32_t> shape, PlainTensor::Dtype dtype, const Values& values);
  PlainStore(const PlainStore&) = delete;
  PlainStore& operator=(const PlainStore&) = delete;
  const PlainTensor& tensor() const { return tensor_; }
  /// Marks the values as gain - 1.
  void shift_by_one() { tensor_.shift_by_one = true; }

 private:
  std::vector<std::byte> data_;
  PlainTensor tensor_;
};

/// Normal values of this scale as floats.
Values random_values(size_t count, double scale, uint32_t seed);
/// The same, rounded to what a buffer of activations stores.
Values random_activations(size_t count, double scale, ActivationType type, uint32_t seed);
/// Makes the first rows awkward, as far as there are so many: tiny beside any epsilon, all zero, large, one lone value
/// in a group of zeros, and near the end of the float range. Keeps the values representable.
void add_awkward_rows(Values& values, size_t width, ActivationType type);
/// Gains around one.
Values random_gain(size_t count, uint32_t seed);

/// The reference's rounding for a plan's activations.
ref::Rounding rounding_of(ActivationType type);

}  // namespace lily::ops
