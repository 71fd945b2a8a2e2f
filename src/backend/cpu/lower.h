// From a plan's ops to launches: which op becomes which launches with which scratch. Scratch is declared as further
// temporaries, so that the schedule and the memory plan see it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/launch.h"

namespace lily::cpu {

struct Lowered {
  std::vector<std::unique_ptr<Launch>> launches;  // program order
  std::vector<PlanBuffer> buffers;                // the plan's, then scratch
};

/// `weights`: by weight table index; they outlive the result.
Lowered lower(const Plan& plan, const std::vector<const CpuWeight*>& weights, const KernelTable& kernels);

}  // namespace lily::cpu
