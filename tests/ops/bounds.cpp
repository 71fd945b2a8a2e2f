#include "tests/ops/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace lily::ops {
namespace {

/// What holding a group of bf16 inputs as integers may cost each of them: nothing where all 8 bits fit, half a step
/// below.
Values group_errors(const Values& x) {
  Values errors(x.size());
  for (size_t first = 0; first < x.size(); first += kQuantGroup) {
    double top = 0;
    for (size_t i = first; i < first + kQuantGroup; ++i) top = std::max(top, std::abs(x[i]));
    if (top == 0.0) continue;
    int exponent = 0;
    (void)std::frexp(top, &exponent);
    const double power = std::ldexp(0.5, exponent);  // the power of two at or below the largest
    for (size_t i = first; i < first + kQuantGroup; ++i) {
      if (std::abs(x[i]) < power * 0x1p-6) errors[i] = std::min(std::abs(x[i]), power * 0x1p-14);
    }
  }
  return errors;
}

}  // namespace

double edge_slack(double value, double error, ActivationType type) {
  if (type == ActivationType::kF32) return 0.0;
  return ref::round_bf16(value + error) - ref::round_bf16(value - error);
}

Expected bounded_linear(const ref::Matrix& weight, const Values& x, const Values& slack, ActivationType type) {
  const size_t cols = weight.cols();
  const size_t rows = x.size() / cols;
  Values errors = type == ActivationType::kBf16 ? group_errors(x) : Values(x.size(), 0.0);
  for (size_t i = 0; i < slack.size(); ++i) errors[i] += slack[i];
  Expected out{Values(rows * weight.rows()), Values(rows * weight.rows())};
  Values line(cols);
  Values squares(cols);
  for (uint32_t n = 0; n < weight.rows(); ++n) {
    weight.read_row(n, line, squares);
    for (size_t r = 0; r < rows; ++r) {
      const double* input = &x[r * cols];
      const double* error = &errors[r * cols];
      double sum = 0;
      double norm = 0;
      double inherited = 0;
      for (size_t c = 0; c < cols; ++c) {
        sum += line[c] * input[c];
        norm += squares[c] * input[c] * input[c];
        inherited += std::abs(line[c]) * error[c];
      }
      out.value[r * weight.rows() + n] = sum;
      out.bound[r * weight.rows() + n] = kSumSlack * std::sqrt(norm) + inherited + 1e-12;
    }
  }
  return out;
}

Expected bounded_experts(const std::vector<const QuantTensor*>& parts, const Values& x,
                         const std::vector<uint32_t>& chosen, size_t choices_a_row, ActivationType type) {
  const ref::Matrix first(parts);
  const size_t cols = first.cols();
  const size_t height = first.rows();
  Expected out{Values(chosen.size() * height), Values(chosen.size() * height)};
  const uint32_t experts = parts.front()->experts;
  for (uint32_t expert = 0; expert < experts; ++expert) {
    Values inputs;
    std::vector<size_t> pairs;
    for (size_t pair = 0; pair < chosen.size(); ++pair) {
      if (chosen[pair] != expert) continue;
      const auto row = ref::row_of(x, pair / choices_a_row, cols);
      inputs.insert(inputs.end(), row.begin(), row.end());
      pairs.push_back(pair);
    }
    if (pairs.empty()) continue;
    const Expected part = bounded_linear(ref::Matrix(parts, expert), inputs, {}, type);
    for (size_t i = 0; i < pairs.size(); ++i) {
      std::ranges::copy(ref::row_of(part.value, i, height), ref::row_of(out.value, pairs[i], height).begin());
      std::ranges::copy(ref::row_of(part.bound, i, height), ref::row_of(out.bound, pairs[i], height).begin());
    }
  }
  return out;
}

void store_rounded(Expected& expected, ActivationType type) {
  for (size_t i = 0; i < expected.value.size(); ++i) {
    const double largest = std::abs(expected.value[i]) + expected.bound[i];
    expected.bound[i] += type == ActivationType::kBf16 ? ref::half_ulp_bf16(largest) : largest * 0x1p-24;
  }
}

void expect_close(const Values& got, const Expected& expected, size_t first_row, size_t width,
                  const std::string& what) {
  LILY_CHECK(first_row * width + got.size() <= expected.value.size(), "{}: more rows than expected", what);
  size_t wrong = 0;
  size_t first = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t at = first_row * width + i;
    if (!(std::abs(got[i] - expected.value[at]) <= expected.bound[at]) && wrong++ == 0) first = i;
  }
  if (wrong == 0) return;
  const size_t at = first_row * width + first;
  ADD_FAILURE() << what << ": " << wrong << " of " << got.size() << " values out of bounds, first at row "
                << first / width << " column " << first % width << ": got " << got[first] << ", expected "
                << expected.value[at] << " within " << expected.bound[at];
}

void expect_same_bytes(const Bytes& got, const Bytes& wanted, size_t row_bytes, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  const auto [a, b] = std::ranges::mismatch(got, wanted);
  if (a == got.end()) return;
  const auto at = static_cast<size_t>(a - got.begin());
  ADD_FAILURE() << what << ": bytes differ, first in row " << at / row_bytes << " at byte " << at % row_bytes << " of "
                << row_bytes;
}

}  // namespace lily::ops
