#define LILY_SIMD_LEVEL avx512
#include "backend/cpu/kernels/level_table.h"

namespace lily::cpu {

const KernelTable& avx512_kernels() {
  return avx512::kTable;
}

}  // namespace lily::cpu
