// The CPU backend: threads, SIMD level, and its constructor. The rest of the folder is private to it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace lily {

/// Instruction set levels, in rising order on x86; kNeon stands for Arm.
enum class SimdLevel : uint8_t { kPortable, kNeon, kAvx2, kAvx512 };

std::string_view simd_level_name(SimdLevel level);
/// Levels that this build has and this machine can run, best last.
std::vector<SimdLevel> available_simd_levels();

struct CpuOptions {
  uint32_t threads = 0;                 // 0: one a physical core this process may use
  std::optional<SimdLevel> simd_level;  // unset: the best available
};

/// Makes a CPU backend. Throws Error(kUnsupported) for a SIMD level this machine cannot run.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

}  // namespace lily
