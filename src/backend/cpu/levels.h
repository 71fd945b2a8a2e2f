// Which kernel table a SIMD level stands for on this machine.
#pragma once

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/kernel_table.h"

namespace lily::cpu {

/// The table of an available level. Throws Error(kUnsupported) when this build or machine lacks it.
const KernelTable& kernels_of(SimdLevel level);

}  // namespace lily::cpu
