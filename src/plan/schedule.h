// Order of launches from what they touch: edges, levels, lifetimes. Works on launches (after a backend has lowered
// ops), so that scratch of split ops counts too. Launches of one level are independent and may overlap; level L needs
// all it reads from below L.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/op.h"

namespace lily {

struct Schedule {
  std::vector<uint32_t> levels;                      // [launches], a launch's level, from 0
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // (earlier, later) launch indices with a hazard between them
  uint32_t level_count = 0;
};

/// True when the two accesses touch a common byte of one buffer and at least one writes.
bool conflicts(const Access& a, const Access& b);

/// Levels by longest path over read-after-write, write-after-read and write-after-write hazards, launches in program
/// order.
Schedule schedule(std::span<const std::vector<Access>> launches);

/// Launch indices by level, program order inside a level: the order in which a backend runs them.
std::vector<uint32_t> level_order(const Schedule& order);

/// First and last level in which a buffer is touched; untouched buffers have first > last.
struct Lifetime {
  uint32_t first = UINT32_MAX;
  uint32_t last = 0;
  bool used() const { return first <= last; }
};
std::vector<Lifetime> lifetimes(std::span<const std::vector<Access>> launches, const Schedule& order,
                                size_t buffer_count);

}  // namespace lily
