// The backends the op tests run on: every SIMD level of the CPU with several thread counts. Another backend joins here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace lily::ops {

struct BackendCase {
  std::string label;  // "avx2, 3 threads"
  std::string group;  // outputs are equal bit for bit inside a group; empty: not promised
  uint32_t threads = 1;
  std::unique_ptr<Backend> backend;
};

/// Made afresh, ordered so that the first of each group runs one thread.
std::vector<BackendCase> op_backends();

}  // namespace lily::ops
