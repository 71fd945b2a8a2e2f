#include "app/bandwidth_probe.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace lily {
namespace {

constexpr uint32_t kPasses = 5;  // the first one faults the pages in

/// Independent sums, so that reading is never held up by adding.
uint64_t read_all(const uint64_t* words, size_t count) {
  std::array<uint64_t, 8> sums{};
  for (size_t i = 0; i + sums.size() <= count; i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += words[i + lane];
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

BandwidthProbe probe_bandwidth(uint32_t threads, uint64_t buffer_bytes) {
  const uint32_t count = threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  const size_t slice = std::max<size_t>(buffer_bytes / sizeof(uint64_t) / count / 8 * 8, 8);
  BandwidthProbe probe{.buffer_bytes = uint64_t{slice} * count * sizeof(uint64_t), .threads = count};
  std::atomic<uint64_t> sink{0};
  std::barrier gate(static_cast<std::ptrdiff_t>(count) + 1);
  std::vector<std::jthread> workers;
  workers.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    workers.emplace_back([&] {
      const std::vector<uint64_t> words(slice, 1);  // written by its reader, so that it lies near it
      for (uint32_t pass = 0; pass < kPasses; ++pass) {
        gate.arrive_and_wait();
        sink += read_all(words.data(), words.size());
        gate.arrive_and_wait();
      }
    });
  }
  for (uint32_t pass = 0; pass < kPasses; ++pass) {
    gate.arrive_and_wait();
    const Stopwatch clock;
    gate.arrive_and_wait();
    const double seconds = std::max(clock.elapsed_ms() / 1000, 1e-9);
    if (pass > 0) {
      probe.gb_per_second = std::max(probe.gb_per_second, static_cast<double>(probe.buffer_bytes) / seconds / 1e9);
    }
  }
  return probe;
}

}  // namespace lily
