#include "backend/cpu/cpu_backend.h"

#include <cstring>
#include <utility>

#include "backend/cpu/cpu_program.h"
#include "backend/cpu/levels.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/repack.h"
#include "backend/cpu/thread_pool.h"
#include "base/error.h"

namespace lily {
namespace cpu {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(uint32_t threads, SimdLevel level)
      : level_(level), kernels_(kernels_of(level)), pool_(threads), workspace_(threads) {}

  std::string_view name() const override { return "cpu"; }
  std::string description() const override {
    return fmt::format("CPU, {}, {} thread{}", simd_level_name(level_), pool_.threads(),
                       pool_.threads() == 1 ? "" : "s");
  }
  BackendMemory memory() const override {
    BackendMemory total;
    total.workspace_bytes = workspace_.bytes();
    for (const auto& weight : weights_) {
      total.weights_bytes += weight->bytes();
    }
    for (const Memory& buffer : buffers_) {
      total.buffers_bytes += buffer.bytes();
    }
    return total;
  }
  uint32_t depth() const override { return 1; }

  WeightHandle adopt(const WeightView& view) override {
    weights_.push_back(std::make_unique<CpuWeight>(repack(view, pool_)));
    return {static_cast<uint32_t>(weights_.size() - 1)};
  }
  BufferHandle allocate(uint64_t bytes, std::string_view buffer_name) override {
    buffers_.emplace_back(bytes, buffer_name);
    return {static_cast<uint32_t>(buffers_.size() - 1)};
  }
  void free(BufferHandle buffer) override { buffers_.at(buffer.index) = Memory(); }

  void write(BufferHandle buffer, uint64_t offset, std::span<const std::byte> bytes) override {
    std::memcpy(range(buffer, offset, bytes.size()), bytes.data(), bytes.size());
  }
  void read(BufferHandle buffer, uint64_t offset, std::span<std::byte> bytes) override {
    std::memcpy(bytes.data(), range(buffer, offset, bytes.size()), bytes.size());
  }
  void copy(BufferHandle to, uint64_t to_offset, BufferHandle from, uint64_t from_offset, uint64_t bytes) override {
    std::memcpy(range(to, to_offset, bytes), range(from, from_offset, bytes), bytes);
  }

  std::unique_ptr<Program> compile(const Plan& plan, const Bindings& bindings) override {
    std::vector<const CpuWeight*> weights;
    for (const WeightHandle handle : bindings.weights) {
      weights.push_back(weights_.at(handle.index).get());
    }
    std::vector<std::byte*> states(plan.buffers.size(), nullptr);
    for (size_t index = 0; index < plan.buffers.size(); ++index) {
      const PlanBuffer& buffer = plan.buffers[index];
      if (buffer.kind == BufferKind::kState) {
        LILY_CHECK(index < bindings.states.size() && bindings.states[index].index < buffers_.size(),
                   "{}: state buffer {} is not bound", plan.name, buffer.name);
        states[index] = range(bindings.states[index], 0, buffer.bytes);
      }
    }
    return std::make_unique<CpuProgram>(plan, lower(plan, weights, kernels_), states, CpuTeam{pool_, workspace_},
                                        [this](std::string fault) {
                                          fault_ = fault_.empty() ? std::move(fault) : fault_;
                                          return Ticket{++submitted_};
                                        });
  }
  void wait(Ticket ticket) override {
    LILY_CHECK(ticket.number <= submitted_, "ticket {} was never handed out", ticket.number);
    if (!fault_.empty()) {
      throw Error(ErrorCode::kRuntime, "{}", std::exchange(fault_, {}));
    }
  }

 private:
  std::byte* range(BufferHandle buffer, uint64_t offset, uint64_t bytes) {
    Memory& memory = buffers_.at(buffer.index);
    LILY_CHECK(offset + bytes <= memory.bytes(), "buffer {}: bytes {} to {} of {}", buffer.index, offset,
               offset + bytes, memory.bytes());
    return memory.data() + offset;
  }

  SimdLevel level_;
  const KernelTable& kernels_;
  ThreadPool pool_;
  Workspace workspace_;
  std::vector<std::unique_ptr<CpuWeight>> weights_;
  std::vector<Memory> buffers_;
  uint64_t submitted_ = 0;
  std::string fault_;  // of a step that nobody has waited for yet
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  const uint32_t threads = options.threads == 0 ? cpu::usable_cores() : options.threads;
  return std::make_unique<cpu::CpuBackend>(threads, options.simd_level.value_or(available_simd_levels().back()));
}

}  // namespace lily
