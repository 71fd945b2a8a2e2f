// Dequantised weights of the reference: stacks of quantised matrices read row by row in double, and plain vectors.
// Decodes the bytes itself, so that it shares no code with what it checks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/weights.h"
#include "tests/ref/values.h"

namespace lily::ref {

/// One expert's matrix [rows, cols]: the parts one below the other, as in a WeightView. The tensors must outlive it.
class Matrix {
 public:
  explicit Matrix(std::vector<const QuantTensor*> parts, uint32_t expert = 0);
  /// Of one tensor.
  explicit Matrix(const QuantTensor& tensor, uint32_t expert = 0) : Matrix(std::vector{&tensor}, expert) {}

  uint32_t rows() const { return rows_; }
  uint32_t cols() const { return cols_; }
  /// weights[c] = code · scale + bias. Where `squares` is not empty, squares[c] = (code · scale)² + bias²: what an
  /// implementation that sums codes and biases apart adds up.
  void read_row(uint32_t row, std::span<double> weights, std::span<double> squares = {}) const;

 private:
  std::vector<const QuantTensor*> parts_;
  uint32_t expert_ = 0;
  uint32_t rows_ = 0;
  uint32_t cols_ = 0;
};

/// The effective values of a plain tensor (a gain stored as gain - 1 gets its one, rounded to bf16).
Values plain_values(const PlainTensor& tensor);

}  // namespace lily::ref
