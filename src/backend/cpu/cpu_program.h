// A compiled plan on the CPU: launches in level order over planned memory; submit runs the step before it returns.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/lower.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/thread_pool.h"
#include "plan/schedule.h"

namespace lily::cpu {

/// What the programs of one backend share.
struct CpuTeam {
  ThreadPool& pool;
  Workspace& workspace;
};

class CpuProgram : public Program {
 public:
  /// `states`: base address of every state buffer of the plan, by buffer index. `next_ticket` takes what went wrong in
  /// the step, empty when nothing did.
  CpuProgram(const Plan& plan, Lowered lowered, const std::vector<std::byte*>& states, const CpuTeam& team,
             std::function<Ticket(std::string)> next_ticket);
  CpuProgram(const CpuProgram&) = delete;
  CpuProgram& operator=(const CpuProgram&) = delete;
  CpuProgram(CpuProgram&&) = delete;
  CpuProgram& operator=(CpuProgram&&) = delete;

  Ticket submit(const Step& step) override;
  std::string describe() const override;

 private:
  /// One launch of the current step.
  struct Active {
    const Launch* launch = nullptr;
    uint32_t items = 0;
    uint32_t grain = 0;
    bool ends_level = false;
  };

  void check_step(const Step& step) const;
  void check_samples(const Step& step) const;
  /// Runs items; an exception (out of memory) is kept for wait, so that every thread still reaches every barrier.
  void guarded_run(const Launch& launch, ItemRange range, const Worker& worker) noexcept;
  /// Addresses of the temporaries in the workspace as it is now.
  void place_temporaries();
  void collect(const StepView& step);
  void work(uint32_t thread);

  std::string name_;
  PlanOptions options_;
  StateSizes sizes_;
  Lowered lowered_;
  Schedule order_;
  std::vector<uint32_t> by_level_;  // launches sorted by level
  std::vector<uint64_t> offsets_;   // place of every temporary in the arena
  uint64_t arena_bytes_ = 0;
  uint64_t workspace_generation_ = 0;  // the one that addresses_ belong to
  Addresses addresses_;
  uint32_t vocab_;
  bool samples_only_;  // a sampling program looks at logit rows, however many rows the forward step had
  CpuTeam team_;
  std::function<Ticket(std::string)> next_ticket_;
  StepView view_;
  std::vector<Active> active_;
  std::vector<std::atomic<uint32_t>> counters_;  // next item of every active launch
  std::function<void(uint32_t)> job_;
  std::mutex fault_mutex_;
  std::string fault_;  // first failure of the current step
};

}  // namespace lily::cpu
