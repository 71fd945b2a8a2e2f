#include "tests/ops/backends.h"

#include <fmt/format.h>

#include "backend/cpu/cpu_backend.h"

namespace lily::ops {

std::vector<BackendCase> op_backends() {
  std::vector<BackendCase> cases;
  for (const SimdLevel level : available_simd_levels()) {
    for (uint32_t threads = 1; threads <= 4; ++threads) {
      cases.push_back({.label = fmt::format("{}, {} threads", simd_level_name(level), threads),
                       .group = std::string(simd_level_name(level)),
                       .threads = threads,
                       .backend = make_cpu_backend({.threads = threads, .simd_level = level})});
    }
  }
  return cases;
}

}  // namespace lily::ops
