#include "plan/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace lily {
namespace {

uint64_t aligned(uint64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryPlan plan_memory(std::span<const uint64_t> sizes, std::span<const Lifetime> lifetimes) {
  LILY_CHECK(sizes.size() == lifetimes.size(), "{} sizes for {} lifetimes", sizes.size(), lifetimes.size());
  MemoryPlan plan;
  plan.offsets.assign(sizes.size(), MemoryPlan::kUnplaced);
  std::vector<uint32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return sizes[a] > sizes[b]; });
  std::vector<uint32_t> placed;
  for (const uint32_t buffer : order) {
    if (sizes[buffer] == 0 || !lifetimes[buffer].used()) {
      continue;
    }
    std::vector<uint32_t> neighbours;
    std::copy_if(placed.begin(), placed.end(), std::back_inserter(neighbours),
                 [&](uint32_t other) { return overlap(lifetimes[buffer], lifetimes[other]); });
    std::sort(neighbours.begin(), neighbours.end(),
              [&](uint32_t a, uint32_t b) { return plan.offsets[a] < plan.offsets[b]; });
    uint64_t offset = 0;
    for (const uint32_t other : neighbours) {
      if (offset + sizes[buffer] <= plan.offsets[other]) {
        break;
      }
      offset = std::max(offset, plan.offsets[other] + aligned(sizes[other]));
    }
    plan.offsets[buffer] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + aligned(sizes[buffer]));
    placed.push_back(buffer);
  }
  return plan;
}

std::vector<std::vector<Access>> physical_accesses(std::span<const std::vector<Access>> launches, const Schedule& order,
                                                   const MemoryPlan& memory, uint32_t arena) {
  std::vector<std::vector<Access>> result;
  for (const uint32_t index : level_order(order)) {
    result.push_back(launches[index]);
    for (Access& access : result.back()) {
      const uint64_t offset = memory.offsets[access.ref.buffer];
      if (offset != MemoryPlan::kUnplaced) {
        access.ref = {arena, offset + access.ref.offset, access.ref.bytes};
      }
    }
  }
  return result;
}

}  // namespace lily
