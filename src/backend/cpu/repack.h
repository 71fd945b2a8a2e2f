// Weights as the CPU kernels read them: blocks of 16 rows (kernels/kernel_table.h), made once when a weight is adopted.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/kernels/kernel_table.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/thread_pool.h"
#include "plan/weight_table.h"

namespace lily::cpu {

struct CpuWeight {
  // a stack of quantised matrices
  Memory blocks;
  uint32_t bits = 0;
  uint32_t experts = 1;
  uint32_t rows = 0;  // of one expert, unpadded
  uint32_t cols = 0;
  // a plain vector
  std::vector<float> plain;

  uint32_t row_blocks() const { return (rows + kBlockRows - 1) / kBlockRows; }
  uint32_t groups() const { return cols / kGroup; }
  uint64_t block_bytes() const { return uint64_t{groups()} * (bits == 4 ? kGroupBytes4 : kGroupBytes8); }
  const std::byte* block(uint32_t expert, uint32_t index) const {
    return blocks.data() + (uint64_t{expert} * row_blocks() + index) * block_bytes();
  }
  uint64_t bytes() const { return blocks.bytes() + plain.size() * sizeof(float); }
};

/// Repacks a stack or widens a vector. Parts of different widths become 8 bits, which changes no value.
CpuWeight repack(const WeightView& view, ThreadPool& pool);

}  // namespace lily::cpu
