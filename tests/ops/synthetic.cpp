#include "tests/ops/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "base/bf16.h"

namespace lily::ops {
namespace {

// Where the data starts inside its allocation: odd, and different for each, so no alignment can be assumed.
constexpr size_t kCodesAt = 1;
constexpr size_t kScalesAt = 3;
constexpr size_t kBiasesAt = 5;

void put_bf16(std::vector<std::byte>& to, size_t at, double value) {
  const uint16_t bits = to_bf16(static_cast<float>(value)).bits;
  std::memcpy(&to[at], &bits, sizeof(bits));
}

}  // namespace

QuantStore::QuantStore(std::string name, const QuantDims& dims, uint32_t seed) {
  std::mt19937_64 random(seed);
  const size_t lines = size_t{dims.experts} * dims.rows;
  codes_.resize(kCodesAt + lines * dims.cols * dims.bits / 8);
  for (size_t at = kCodesAt; at < codes_.size(); at += 8) {
    const uint64_t word = random();
    std::memcpy(&codes_[at], &word, std::min<size_t>(8, codes_.size() - at));
  }
  const size_t groups = lines * (dims.cols / kQuantGroup);
  scales_.resize(kScalesAt + groups * 2);
  biases_.resize(kBiasesAt + groups * 2);
  const double top_code = dims.bits == 4 ? 15.0 : 255.0;
  const double spread = top_code / std::sqrt(12.0) * std::sqrt(static_cast<double>(dims.cols));
  std::uniform_real_distribution<double> size(0.4, 1.6);
  std::uniform_real_distribution<double> middle(0.4, 0.6);
  std::bernoulli_distribution negative(0.3);
  for (size_t g = 0; g < groups; ++g) {
    const double scale = size(random) / spread * (negative(random) ? -1.0 : 1.0);
    put_bf16(scales_, kScalesAt + g * 2, scale);
    put_bf16(biases_, kBiasesAt + g * 2, -scale * top_code * middle(random));
  }
  tensor_ = {.name = std::move(name),
             .experts = dims.experts,
             .bits = dims.bits,
             .rows = dims.rows,
             .cols = dims.cols,
             .codes = codes_.data() + kCodesAt,
             .scales = scales_.data() + kScalesAt,
             .biases = biases_.data() + kBiasesAt};
}

PlainStore::PlainStore(std::string name, std::vector<uint32_t> shape, PlainTensor::Dtype dtype, const Values& values) {
  const size_t bytes = dtype == PlainTensor::Dtype::kBf16 ? 2 : 4;
  data_.resize(1 + values.size() * bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    if (bytes == 2) {
      put_bf16(data_, 1 + i * bytes, values[i]);
    } else {
      const auto value = static_cast<float>(values[i]);
      std::memcpy(&data_[1 + i * bytes], &value, sizeof(value));
    }
  }
  tensor_.name = std::move(name);
  tensor_.dtype = dtype;
  tensor_.shape = std::move(shape);
  tensor_.data = data_.data() + 1;
}

Values random_values(size_t count, double scale, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw(0.0, scale);
  Values values(count);
  for (double& value : values) value = static_cast<double>(static_cast<float>(draw(random)));
  return values;
}

Values random_activations(size_t count, double scale, ActivationType type, uint32_t seed) {
  Values values = random_values(count, scale, seed);
  for (double& value : values) value = ref::rounded(value, rounding_of(type));
  return values;
}

void add_awkward_rows(Values& values, size_t width, ActivationType type) {
  const size_t rows = values.size() / width;
  const auto scale = [&](size_t row, double factor) {
    if (row >= rows) return;
    for (double& value : ref::row_of(values, row, width)) {
      value = ref::rounded(static_cast<double>(static_cast<float>(value * factor)), rounding_of(type));
    }
  };
  scale(0, 1e-3);
  scale(1, 0.0);
  scale(2, 300.0);
  if (rows > 3) {
    const auto group = ref::row_of(values, 3, width).first(std::min<size_t>(width, kQuantGroup));
    std::ranges::fill(group, 0.0);
    group[group.size() / 2] = 40.0;
  }
  scale(4, 1e-36);
}

Values random_gain(size_t count, uint32_t seed) {
  Values values = random_values(count, 0.2, seed);
  for (double& value : values) value += 1.0;
  return values;
}

ref::Rounding rounding_of(ActivationType type) {
  return type == ActivationType::kBf16 ? ref::Rounding::kBf16 : ref::Rounding::kNone;
}

}  // namespace lily::ops
