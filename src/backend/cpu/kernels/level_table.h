// Fills the kernel table of the level that includes it.
#pragma once

#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/delta.h"
#include "backend/cpu/kernels/linear.h"
#include "backend/cpu/kernels/rows.h"

namespace lily::cpu::LILY_SIMD_LEVEL {

template <typename T>
static constexpr ActivationKernels<T> activation_table(void (*linear)(const LinearTile&)) {
  return {.prepare = prepare,
          .rms_norm = rms_norm<T>,
          .linear = linear,
          .store_tile = store_tile<T>,
          .add_tile = add_tile<T>,
          .silu_mul_tile = silu_mul_tile<T>,
          .combine = combine<T>,
          .delta = delta<T>,
          .norm_rope = norm_rope<T>,
          .attention = attention<T>,
          .embed = embed<T>};
}

static constexpr KernelTable kTable = {.bf16 = activation_table<Bf16>(linear_bf16),
                                       .f32 = activation_table<float>(linear_f32),
                                       .scan_logits = scan_logits,
                                       .sum_exp = sum_exp};

}  // namespace lily::cpu::LILY_SIMD_LEVEL
