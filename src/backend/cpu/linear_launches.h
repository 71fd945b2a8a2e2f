// Launches of dense products: inputs prepared (with or without a norm), then blocks of 16 output rows times tiles of
// inputs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/cpu/launch.h"

namespace lily::cpu {

enum class RowCount : uint8_t { kRows, kLogitRows };

constexpr uint32_t row_count(const StepView& step, RowCount which) {
  return which == RowCount::kRows ? step.rows : step.logit_rows;
}

/// Rows that a product reads, optionally normed first.
struct InputRows {
  Ref x;                            // [rows, cols] act
  const CpuWeight* gain = nullptr;  // set: x is normed
  Ref normed;                       // set: normed rows are also written here
  float eps = 0;
  uint32_t cols = 0;
  RowCount count = RowCount::kRows;
};

/// Where the product goes.
enum class LinearEnd : uint8_t {
  kStore,     // out = y, rounded to act
  kAdd,       // out += y, one rounding
  kStoreF32,  // out = y in f32
};

struct LinearOut {
  Ref out;  // [rows, width]
  LinearEnd end = LinearEnd::kStore;
};

/// Adds the launches of out (+)= W · input to `launches`. `prepared` is a buffer for PreparedLayout<T>::bytes(max rows,
/// cols), unset when a step never has more than kFewRows rows.
template <typename T>
void lower_linear(std::vector<std::unique_ptr<Launch>>& launches, const std::string& name, const KernelTable& kernels,
                  const CpuWeight& weight, const InputRows& input, const LinearOut& out, Ref prepared);

/// Adds the launch that prepares all rows of `input` into `prepared` when a step has more than kFewRows rows.
template <typename T>
void lower_prepare(std::vector<std::unique_ptr<Launch>>& launches, const std::string& name, const KernelTable& kernels,
                   const InputRows& input, Ref prepared);

/// Prepares rows [begin, end) of `input`; norms first when it has a gain. row_scratch: [cols] act.
template <typename T>
void prepare_rows(const ActivationKernels<T>& kernels, const InputRows& input, ItemRange rows, const Addresses& memory,
                  Prepared to, T* row_scratch, bool write_normed);

}  // namespace lily::cpu
