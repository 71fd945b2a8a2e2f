#include "plan/schedule.h"

#include <algorithm>
#include <numeric>

namespace lily {

bool conflicts(const Access& a, const Access& b) {
  return a.ref.buffer == b.ref.buffer && (a.writes || b.writes) && a.ref.offset < b.ref.offset + b.ref.bytes &&
         b.ref.offset < a.ref.offset + a.ref.bytes;
}

Schedule schedule(std::span<const std::vector<Access>> launches) {
  Schedule result;
  result.levels.resize(launches.size(), 0);
  for (uint32_t later = 0; later < launches.size(); ++later) {
    for (uint32_t earlier = 0; earlier < later; ++earlier) {
      const bool hazard = std::any_of(launches[later].begin(), launches[later].end(), [&](const Access& a) {
        return std::any_of(launches[earlier].begin(), launches[earlier].end(),
                           [&](const Access& b) { return conflicts(a, b); });
      });
      if (hazard) {
        result.edges.emplace_back(earlier, later);
        result.levels[later] = std::max(result.levels[later], result.levels[earlier] + 1);
      }
    }
    result.level_count = std::max(result.level_count, result.levels[later] + 1);
  }
  return result;
}

std::vector<uint32_t> level_order(const Schedule& order) {
  std::vector<uint32_t> launches(order.levels.size());
  std::iota(launches.begin(), launches.end(), 0U);
  std::stable_sort(launches.begin(), launches.end(),
                   [&](uint32_t a, uint32_t b) { return order.levels[a] < order.levels[b]; });
  return launches;
}

std::vector<Lifetime> lifetimes(std::span<const std::vector<Access>> launches, const Schedule& order,
                                size_t buffer_count) {
  std::vector<Lifetime> result(buffer_count);
  for (size_t launch = 0; launch < launches.size(); ++launch) {
    for (const Access& access : launches[launch]) {
      Lifetime& life = result[access.ref.buffer];
      life.first = std::min(life.first, order.levels[launch]);
      life.last = std::max(life.last, order.levels[launch]);
    }
  }
  return result;
}

}  // namespace lily
