#define LILY_SIMD_LEVEL portable
#define LILY_PORTABLE  // no instruction of any level, whatever the compiler may assume
#include "backend/cpu/kernels/level_table.h"

namespace lily::cpu {

const KernelTable& portable_kernels() {
  return portable::kTable;
}

}  // namespace lily::cpu
