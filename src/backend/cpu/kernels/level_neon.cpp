#define LILY_SIMD_LEVEL neon
#include "backend/cpu/kernels/level_table.h"

namespace lily::cpu {

const KernelTable& neon_kernels() {
  return neon::kTable;
}

}  // namespace lily::cpu
