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

/// What compiled programs share, since only one runs at a time: an arena for temporaries and scratch for every thread.
/// Grows to the largest demand; whoever holds addresses compares generation() and looks them up again.
class Workspace {
 public:
  explicit Workspace(uint32_t threads) : threads_(threads) {}
  /// Makes room for `arena_bytes` and `scratch_bytes` a thread. Contents do not survive growth.
  void reserve(uint64_t arena_bytes, uint64_t scratch_bytes);
  std::byte* arena() const { return arena_.data(); }
  std::byte* scratch(uint32_t thread) const { return scratch_.data() + thread * stride_; }
  uint64_t generation() const { return generation_; }
  uint64_t bytes() const { return arena_.bytes() + scratch_.bytes(); }

 private:
  uint32_t threads_;
  Memory arena_;
  Memory scratch_;
  uint64_t stride_ = 0;
  uint64_t generation_ = 0;
};

}  // namespace lily::cpu
