// How fast this machine reads memory: the ceiling of decode speed, measured in the process that is judged by it.
#pragma once

#include <cstdint>

namespace lily {

struct BandwidthProbe {
  double gb_per_second = 0;  // of the fastest pass
  uint64_t buffer_bytes = 0;
  uint32_t threads = 0;
};

/// Reads a buffer several times with `threads` threads (0: all this process may use). `buffer_bytes` should be far
/// beyond the caches.
BandwidthProbe probe_bandwidth(uint32_t threads, uint64_t buffer_bytes);

}  // namespace lily
