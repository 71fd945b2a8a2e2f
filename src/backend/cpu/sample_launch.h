// Sampling on the CPU: one item is one logit row.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/launch.h"

namespace lily::cpu {

/// `max_logit_rows`: rows of one third of the results ring.
void lower_sample(std::vector<std::unique_ptr<Launch>>& launches, const KernelTable& kernels, const ModelShape& shape,
                  uint32_t max_logit_rows, const Sample& op);

/// Uniform in [0, 1) as a pure function of (seed, choice, position): splitmix64 over the three, 53 bits.
double sampling_uniform(uint64_t seed, uint32_t choice, uint32_t position);

}  // namespace lily::cpu
