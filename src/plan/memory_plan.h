// Places temporaries in one arena. Two buffers may share bytes only if their level intervals are disjoint, so aliasing
// never serialises launches that could overlap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule.h"

namespace lily {

constexpr uint64_t kArenaAlignment = 64;

struct MemoryPlan {
  static constexpr uint64_t kUnplaced = UINT64_MAX;
  std::vector<uint64_t> offsets;  // [buffers], kUnplaced for those with size 0 or never used
  uint64_t arena_bytes = 0;
};

/// Greedy by size, first gap that fits. sizes[i] = 0 means that buffer i is not a temporary.
MemoryPlan plan_memory(std::span<const uint64_t> sizes, std::span<const Lifetime> lifetimes);

/// The accesses in level order with temporaries replaced by their place in the arena (buffer index `arena`): what runs,
/// for checking that aliasing adds no level.
std::vector<std::vector<Access>> physical_accesses(std::span<const std::vector<Access>> launches, const Schedule& order,
                                                   const MemoryPlan& memory, uint32_t arena);

}  // namespace lily
