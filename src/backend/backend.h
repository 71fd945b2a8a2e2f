// The seam between the engine and a device. A backend adopts weights, owns buffers, compiles plans to programs and runs
// steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "plan/step.h"

namespace lily {

/// A weight that the backend has adopted.
struct WeightHandle {
  uint32_t index = UINT32_MAX;
};

/// A device allocation made by allocate().
struct BufferHandle {
  uint32_t index = UINT32_MAX;
};

/// One submitted step; tickets of a backend finish in submission order.
struct Ticket {
  uint64_t number = 0;
};

/// What compile() binds: a handle for every weight of the plan's table, and one for every state buffer of the plan by
/// index.
struct Bindings {
  std::vector<WeightHandle> weights;  // [weight table]
  std::vector<BufferHandle> states;   // [plan buffers], unset for temporaries
};

struct BackendMemory {
  uint64_t weights_bytes = 0;    // adopted weights, as laid out by the backend
  uint64_t buffers_bytes = 0;    // allocate()d buffers
  uint64_t workspace_bytes = 0;  // arenas and scratch of compiled programs
};

/// A compiled plan. Submits may be in flight up to the backend's depth.
class Program {
 public:
  virtual ~Program() = default;
  /// Enqueues one step; the step is read before submit returns. Aborts on a step that breaks the plan's limits (our
  /// bug).
  virtual Ticket submit(const Step& step) = 0;
  /// Text: launches with levels, for golden files and people.
  virtual std::string describe() const = 0;
};

/// A device. Not thread-safe: one engine thread drives it.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// One line for people: instruction set, threads, device.
  virtual std::string description() const = 0;
  virtual BackendMemory memory() const = 0;
  /// How many steps may usefully be in flight: 1 when submit computes before it returns.
  virtual uint32_t depth() const = 0;

  /// Takes over a weight; the view's mapped bytes are not needed afterwards.
  virtual WeightHandle adopt(const WeightView& view) = 0;
  /// Zeroed memory. Throws Error(kMemory) with the size when there is not enough.
  virtual BufferHandle allocate(uint64_t bytes, std::string_view buffer_name) = 0;
  virtual void free(BufferHandle buffer) = 0;
  /// Host to device; ordered after every submit so far.
  virtual void write(BufferHandle buffer, uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Device to host; waits for every submit so far.
  virtual void read(BufferHandle buffer, uint64_t offset, std::span<std::byte> bytes) = 0;
  /// Device to device, ordered with submits. Ranges must not overlap.
  virtual void copy(BufferHandle to, uint64_t to_offset, BufferHandle from, uint64_t from_offset, uint64_t bytes) = 0;

  virtual std::unique_ptr<Program> compile(const Plan& plan, const Bindings& bindings) = 0;
  /// Blocks until the step is done. Throws Error(kRuntime) when the device reported a fault.
  virtual void wait(Ticket ticket) = 0;
};

}  // namespace lily
