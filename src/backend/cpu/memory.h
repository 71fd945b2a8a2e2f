// Page-aligned zeroed memory, in huge pages where the system gives them: weights are streamed once a step, so TLB
// misses count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lily::cpu {

class Memory {
 public:
  Memory() = default;
  /// Throws Error(kMemory) naming what could not be had.
  Memory(uint64_t bytes, std::string_view name);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace lily::cpu
