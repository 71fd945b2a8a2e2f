#define LILY_SIMD_LEVEL avx2
#include "backend/cpu/kernels/level_table.h"

namespace lily::cpu {

const KernelTable& avx2_kernels() {
  return avx2::kTable;
}

}  // namespace lily::cpu
