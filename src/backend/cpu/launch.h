// A launch: one piece of a lowered op that all threads work on, without any order between its items. What it touches is
// declared, so that the schedule can order launches; where the bytes lie is looked up when it runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/kernels/kernel_table.h"
#include "backend/cpu/repack.h"
#include "plan/plan.h"
#include "plan/step.h"

namespace lily::cpu {

/// A step with its per-row arrays; what launches read instead of Step.
struct StepView {
  const Step* step = nullptr;
  uint32_t rows = 0;
  uint32_t logit_rows = 0;
  std::vector<uint32_t> row_run;        // [rows] index of the run
  std::vector<uint32_t> row_position;   // [rows] absolute position
  std::vector<uint32_t> logit_row_row;  // [logit rows] row of the step

  void assign(const Step& next);
};

/// Base addresses of a program's buffers: state buffers as bound, temporaries inside the arena.
struct Addresses {
  std::vector<std::byte*> base;  // [buffers]
  template <typename T>
  T* at(Ref ref) const {
    return reinterpret_cast<T*>(base[ref.buffer] + ref.offset);
  }
};

/// What one thread brings to a launch.
struct Worker {
  std::byte* scratch = nullptr;  // 64-byte aligned, at least the launch's scratch_bytes()
  const Addresses* memory = nullptr;
};

struct ItemRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

class Launch {
 public:
  Launch(std::string name, std::vector<Access> accesses) : name_(std::move(name)), accesses_(std::move(accesses)) {}
  virtual ~Launch() = default;
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  Launch(Launch&&) = delete;
  Launch& operator=(Launch&&) = delete;

  const std::string& name() const { return name_; }
  const std::vector<Access>& accesses() const { return accesses_; }
  /// Bytes of per-thread scratch.
  virtual uint64_t scratch_bytes() const { return 0; }
  /// How many items this step has; 0 skips the launch.
  virtual uint32_t items(const StepView& step) const = 0;
  /// Items handed out at a time; 0 gives every thread one contiguous share, which keeps a thread on the same weights
  /// every step.
  virtual uint32_t grain(const StepView&) const { return 0; }
  virtual void run(const StepView& step, ItemRange range, const Worker& worker) const = 0;

 private:
  std::string name_;
  std::vector<Access> accesses_;
};

/// Carves typed arrays out of a worker's scratch, 64-byte aligned.
class ScratchCursor {
 public:
  explicit ScratchCursor(std::byte* base) : next_(base) {}
  template <typename T>
  T* take(uint64_t count) {
    T* array = reinterpret_cast<T*>(next_);
    next_ += rounded(count * sizeof(T));
    return array;
  }
  static uint64_t rounded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

 private:
  std::byte* next_;
};

constexpr uint32_t kTileMax = 128;  // inputs that share one pass over a weight block: 16 sums each stay in the L1 cache
constexpr uint32_t kFewRows = 4;    // up to here every thread prepares all inputs itself: cheaper than a barrier

/// Bytes and placement of a batch of prepared rows.
template <typename T>
struct PreparedLayout {
  static uint64_t bytes(uint64_t rows, uint32_t cols) {
    const uint64_t groups = cols / kGroup;
    return ScratchCursor::rounded(rows * groups * prepared_group_bytes<T>()) +
           ScratchCursor::rounded(rows * groups * 2 * sizeof(float));
  }
  static Prepared place(std::byte* memory, uint32_t rows, uint32_t cols) {
    ScratchCursor cursor(memory);
    Prepared batch;
    batch.codes = cursor.take<std::byte>(uint64_t{rows} * (cols / kGroup) * prepared_group_bytes<T>());
    batch.factors = cursor.take<float>(uint64_t{rows} * (cols / kGroup) * 2);
    batch.rows = rows;
    return batch;
  }
};

}  // namespace lily::cpu
