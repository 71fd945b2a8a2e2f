#include "tests/ref/linear.h"

#include <cmath>

#include "base/error.h"

namespace lily::ref {

Values linear(const Matrix& weight, const Values& x) {
  const size_t cols = weight.cols();
  LILY_CHECK(x.size() % cols == 0, "linear: {} inputs are no rows of {}", x.size(), cols);
  const size_t rows = x.size() / cols;
  Values out(rows * weight.rows());
  Values line(cols);
  for (uint32_t n = 0; n < weight.rows(); ++n) {
    weight.read_row(n, line);
    for (size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (size_t c = 0; c < cols; ++c) sum += line[c] * x[r * cols + c];
      out[r * weight.rows() + n] = sum;
    }
  }
  return out;
}

Values rms_norm(const Values& x, const Values& gain, double eps) {
  const size_t width = gain.size();
  LILY_CHECK(x.size() % width == 0, "rms_norm: {} inputs are no rows of {}", x.size(), width);
  Values out(x.size());
  for (size_t r = 0; r < x.size() / width; ++r) {
    double squares = 0;
    for (const double value : row_of(x, r, width)) squares += value * value;
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (size_t c = 0; c < width; ++c) out[r * width + c] = x[r * width + c] * factor * gain[c];
  }
  return out;
}

void round_all(Values& values, Rounding rounding) {
  for (double& value : values) value = rounded(value, rounding);
}

Values embed_tokens(const Matrix& table, std::span<const int32_t> tokens, Rounding rounding) {
  const size_t width = table.cols();
  Values out(tokens.size() * width);
  for (size_t i = 0; i < tokens.size(); ++i) {
    table.read_row(static_cast<uint32_t>(tokens[i]), row_of(out, i, width));
  }
  round_all(out, rounding);
  return out;
}

Values norm_linear(const Matrix& weight, const Values& gain, double eps, const Values& x, Rounding rounding) {
  Values out = linear(weight, final_norm(x, gain, eps, rounding));
  round_all(out, rounding);
  return out;
}

void linear_residual(const Matrix& weight, const Values& x, Values& residual, Rounding rounding) {
  const Values product = linear(weight, x);
  for (size_t i = 0; i < residual.size(); ++i) residual[i] = rounded(residual[i] + product[i], rounding);
}

Values final_norm(const Values& x, const Values& gain, double eps, Rounding rounding) {
  Values out = rms_norm(x, gain, eps);
  round_all(out, rounding);
  return out;
}

Values lm_head(const Matrix& weight, const Values& x) {
  return linear(weight, x);
}

}  // namespace lily::ref
