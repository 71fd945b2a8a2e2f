#define LILY_SIMD_LEVEL portable
#include "backend/cpu/kernels/level_table.h"

namespace lily::cpu {

const KernelTable& portable_kernels() {
  return portable::kTable;
}

}  // namespace lily::cpu
