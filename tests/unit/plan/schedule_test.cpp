// Order and memory of launches: hazards, levels, lifetimes, and the promise that aliasing adds no level.

#include "plan/schedule.h"

#include <gtest/gtest.h>

#include <random>

#include "plan/memory_plan.h"

namespace lily {
namespace {

using Accesses = std::vector<Access>;

Access reads(uint32_t buffer, uint64_t offset = 0, uint64_t bytes = 64) {
  return {{buffer, offset, bytes}, false};
}
Access writes(uint32_t buffer, uint64_t offset = 0, uint64_t bytes = 64) {
  return {{buffer, offset, bytes}, true};
}

TEST(Schedule, IndependentLaunchesShareALevel) {
  const std::vector<Accesses> launches = {{writes(0)}, {writes(1)}, {reads(0), reads(1), writes(2)}};
  const Schedule order = schedule(launches);
  EXPECT_EQ(order.levels, (std::vector<uint32_t>{0, 0, 1}));
  EXPECT_EQ(order.level_count, 2U);
}

TEST(Schedule, ReadsOfOneBufferDoNotOrderEachOther) {
  const std::vector<Accesses> launches = {{writes(0)}, {reads(0), writes(1)}, {reads(0), writes(2)}};
  EXPECT_EQ(schedule(launches).levels, (std::vector<uint32_t>{0, 1, 1}));
}

TEST(Schedule, AllThreeHazardsOrder) {
  EXPECT_EQ(schedule(std::vector<Accesses>{{writes(0)}, {reads(0)}}).levels[1], 1U);   // read after write
  EXPECT_EQ(schedule(std::vector<Accesses>{{reads(0)}, {writes(0)}}).levels[1], 1U);   // write after read
  EXPECT_EQ(schedule(std::vector<Accesses>{{writes(0)}, {writes(0)}}).levels[1], 1U);  // write after write
}

TEST(Schedule, RangesThatOnlyTouchDoNotConflict) {
  EXPECT_FALSE(conflicts(writes(0, 0, 64), reads(0, 64, 64)));
  EXPECT_TRUE(conflicts(writes(0, 0, 65), reads(0, 64, 64)));
  EXPECT_FALSE(conflicts(writes(0), reads(1)));
}

TEST(Schedule, LifetimesSpanTheLevelsOfUse) {
  const std::vector<Accesses> launches = {{writes(0)}, {reads(0), writes(1)}, {reads(1), writes(2)}};
  const Schedule order = schedule(launches);
  const std::vector<Lifetime> lives = lifetimes(launches, order, 4);
  EXPECT_EQ(lives[0].first, 0U);
  EXPECT_EQ(lives[0].last, 1U);
  EXPECT_EQ(lives[1].last, 2U);
  EXPECT_FALSE(lives[3].used());
}

TEST(MemoryPlan, DisjointLivesShareBytes) {
  const std::vector<Lifetime> lives = {{0, 1}, {1, 2}, {2, 3}};
  const std::vector<uint64_t> sizes = {1000, 500, 1000};
  const MemoryPlan plan = plan_memory(sizes, lives);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  EXPECT_GE(plan.offsets[1], 1000U);
  EXPECT_LT(plan.arena_bytes, 2000U);
}

TEST(MemoryPlan, UnusedAndNonTemporaryBuffersGetNoPlace) {
  const std::vector<Lifetime> lives = {{0, 0}, {}};
  const std::vector<uint64_t> sizes = {0, 100};
  const MemoryPlan plan = plan_memory(sizes, lives);
  EXPECT_EQ(plan.offsets[0], MemoryPlan::kUnplaced);
  EXPECT_EQ(plan.offsets[1], MemoryPlan::kUnplaced);
  EXPECT_EQ(plan.arena_bytes, 0U);
}

// Random programs: places never overlap while both buffers live, and the aliased program has as many levels as the free
// one.
TEST(MemoryPlan, AliasingIsSafeAndAddsNoLevelOnRandomPrograms) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto buffers = static_cast<uint32_t>(3 + random() % 12);
    std::vector<Accesses> launches;
    std::vector<uint64_t> sizes;
    for (uint32_t i = 0; i < buffers; ++i) {
      sizes.push_back(64 + random() % 1000);
    }
    for (uint32_t i = 0; i < buffers; ++i) {
      Accesses list = {writes(i, 0, sizes[i])};
      for (uint32_t j = 0; j < i; ++j) {
        if (random() % 3 == 0) {
          list.push_back(reads(j, 0, sizes[j]));
        }
      }
      launches.push_back(std::move(list));
    }
    const Schedule order = schedule(launches);
    const std::vector<Lifetime> lives = lifetimes(launches, order, buffers);
    const MemoryPlan plan = plan_memory(sizes, lives);
    for (uint32_t a = 0; a < buffers; ++a) {
      EXPECT_EQ(plan.offsets[a] % kArenaAlignment, 0U);
      for (uint32_t b = 0; b < a; ++b) {
        const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const bool overlap =
            plan.offsets[a] < plan.offsets[b] + sizes[b] && plan.offsets[b] < plan.offsets[a] + sizes[a];
        EXPECT_FALSE(together && overlap) << "round " << round << " buffers " << a << " and " << b;
      }
    }
    EXPECT_EQ(schedule(physical_accesses(launches, order, plan, buffers)).level_count, order.level_count);
  }
}

}  // namespace
}  // namespace lily
