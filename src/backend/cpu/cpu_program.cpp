#include "backend/cpu/cpu_program.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "plan/memory_plan.h"
#include "plan/schedule.h"

namespace lily::cpu {

void StepView::assign(const Step& next) {
  step = &next;
  rows = next.rows();
  row_run.resize(rows);
  row_position.resize(rows);
  logit_row_row.clear();
  for (uint32_t index = 0; index < next.runs.size(); ++index) {
    const Run& run = next.runs[index];
    for (uint32_t i = 0; i < run.rows; ++i) {
      row_run[run.first_row + i] = index;
      row_position[run.first_row + i] = run.first_position + i;
      if (i >= run.rows - run.logit_rows) {
        logit_row_row.push_back(run.first_row + i);
      }
    }
  }
  logit_rows = static_cast<uint32_t>(logit_row_row.size());
}

CpuProgram::CpuProgram(const Plan& plan, Lowered lowered, const std::vector<std::byte*>& states, const CpuTeam& team,
                       std::function<Ticket(std::string)> next_ticket)
    : name_(plan.name),
      options_(plan.options),
      sizes_(plan.sizes),
      lowered_(std::move(lowered)),
      vocab_(plan.shape.vocab),
      samples_only_(std::all_of(plan.ops.begin(), plan.ops.end(),
                                [](const Op& op) { return std::holds_alternative<Sample>(op); })),
      team_(team),
      next_ticket_(std::move(next_ticket)),
      counters_(lowered_.launches.size()),
      job_([this](uint32_t thread) { work(thread); }) {
  std::vector<std::vector<Access>> accesses;
  uint64_t scratch_bytes = 0;
  for (const auto& launch : lowered_.launches) {
    accesses.push_back(launch->accesses());
    scratch_bytes = std::max(scratch_bytes, launch->scratch_bytes());
  }
  order_ = schedule(accesses);
  std::vector<uint64_t> sizes;
  for (const PlanBuffer& buffer : lowered_.buffers) {
    sizes.push_back(buffer.kind == BufferKind::kTemp ? buffer.bytes : 0);
  }
  const MemoryPlan memory = plan_memory(sizes, lifetimes(accesses, order_, sizes.size()));
  // Edges that count are those of the aliased memory; the plan promises that aliasing adds no level.
  const Schedule physical = schedule(physical_accesses(accesses, order_, memory, static_cast<uint32_t>(sizes.size())));
  LILY_CHECK(physical.level_count == order_.level_count, "{}: aliasing raised the levels from {} to {}", name_,
             order_.level_count, physical.level_count);
  offsets_ = memory.offsets;
  arena_bytes_ = memory.arena_bytes;
  team_.workspace.reserve(arena_bytes_, scratch_bytes);
  addresses_.base.resize(sizes.size(), nullptr);
  std::copy(states.begin(), states.end(), addresses_.base.begin());
  place_temporaries();
  by_level_ = level_order(order_);
}

void CpuProgram::place_temporaries() {
  for (size_t buffer = 0; buffer < offsets_.size(); ++buffer) {
    if (offsets_[buffer] != MemoryPlan::kUnplaced) {
      addresses_.base[buffer] = team_.workspace.arena() + offsets_[buffer];
    }
  }
  workspace_generation_ = team_.workspace.generation();
}

void CpuProgram::check_step(const Step& step) const {
  LILY_CHECK(step.rows() <= options_.max_rows, "{}: {} rows in a program of {}", name_, step.rows(), options_.max_rows);
  LILY_CHECK(step.logit_rows() <= sizes_.max_logit_rows, "{}: {} logit rows of {}", name_, step.logit_rows(),
             sizes_.max_logit_rows);
  LILY_CHECK(step.samples.size() <= sizes_.max_logit_rows && step.ring < kStepRing, "{}: {} samples, ring {}", name_,
             step.samples.size(), step.ring);
  uint32_t next_row = 0;
  for (const Run& run : step.runs) {
    LILY_CHECK(run.first_row == next_row && run.rows > 0, "{}: runs must tile the rows in order", name_);
    LILY_CHECK(run.sequence < sizes_.sequences && run.state_in < sizes_.state_slots &&
                   run.state_out < sizes_.state_slots && run.logit_rows <= run.rows,
               "{}: run of sequence {} with states {} and {}", name_, run.sequence, run.state_in, run.state_out);
    const uint64_t end = uint64_t{run.first_position} + run.rows;
    LILY_CHECK(end <= uint64_t{sizes_.blocks_a_sequence} * kKvBlockTokens &&
                   (options_.max_context == 0 || end <= options_.max_context),
               "{}: positions up to {} beyond the program's context", name_, end);
    for (const StateSnapshot& snapshot : run.snapshots) {
      LILY_CHECK(snapshot.slot < sizes_.state_slots && snapshot.rows_done >= 1 && snapshot.rows_done <= run.rows,
                 "{}: snapshot after {} rows into slot {}", name_, snapshot.rows_done, snapshot.slot);
    }
    next_row += run.rows;
  }
  for (const int32_t token : step.tokens) {
    LILY_CHECK(token >= 0 || static_cast<uint32_t>(-1 - token) < sizes_.sequences, "{}: token source {}", name_, token);
  }
  LILY_CHECK(next_row == step.rows() || step.runs.empty(), "{}: runs cover {} of {} rows", name_, next_row,
             step.rows());
}

void CpuProgram::check_samples(const Step& step) const {
  for (const SampleParams& params : step.samples) {
    LILY_CHECK(params.sequence < sizes_.sequences && params.vocabulary > 0 && params.vocabulary <= vocab_ &&
                   params.top_logprobs <= kMaxTopLogprobs,
               "{}: sample of sequence {} over {} tokens with {} alternatives", name_, params.sequence,
               params.vocabulary, params.top_logprobs);
    for (const auto& [id, value] : params.bias) {
      LILY_CHECK(id < params.vocabulary, "{}: bias on token {} of {}", name_, id, params.vocabulary);
    }
    for (const uint32_t id : params.banned) {
      LILY_CHECK(id < params.vocabulary, "{}: ban of token {} of {}", name_, id, params.vocabulary);
    }
  }
}

void CpuProgram::collect(const StepView& step) {
  active_.clear();
  uint32_t level = 0;
  for (const uint32_t index : by_level_) {
    const Launch& launch = *lowered_.launches[index];
    const uint32_t items = launch.items(step);
    if (items == 0) {
      continue;
    }
    if (!active_.empty() && order_.levels[index] != level) {
      active_.back().ends_level = true;
    }
    level = order_.levels[index];
    counters_[active_.size()].store(0, std::memory_order_relaxed);
    active_.push_back({&launch, items, launch.grain(step), false});
  }
}

void CpuProgram::work(uint32_t thread) {
  const Worker worker{team_.workspace.scratch(thread), &addresses_};
  const uint32_t threads = team_.pool.threads();
  for (size_t i = 0; i < active_.size(); ++i) {
    const Active& active = active_[i];
    if (active.grain == 0 || threads == 1) {
      const auto begin = static_cast<uint32_t>(uint64_t{active.items} * thread / threads);
      const auto end = static_cast<uint32_t>(uint64_t{active.items} * (thread + 1) / threads);
      if (begin < end) {
        guarded_run(*active.launch, {begin, end}, worker);
      }
    } else {
      while (true) {
        const uint32_t begin = counters_[i].fetch_add(active.grain, std::memory_order_relaxed);
        if (begin >= active.items) {
          break;
        }
        guarded_run(*active.launch, {begin, std::min(active.items, begin + active.grain)}, worker);
      }
    }
    if (active.ends_level) {
      team_.pool.barrier();
    }
  }
}

void CpuProgram::guarded_run(const Launch& launch, ItemRange range, const Worker& worker) noexcept {
  try {
    launch.run(view_, range, worker);
  } catch (const std::exception& error) {
    const std::scoped_lock lock(fault_mutex_);
    if (fault_.empty()) {
      fault_ = fmt::format("{} failed: {}", launch.name(), error.what());
    }
  }
}

Ticket CpuProgram::submit(const Step& step) {
  samples_only_ ? check_samples(step) : check_step(step);
  if (workspace_generation_ != team_.workspace.generation()) {
    place_temporaries();
  }
  view_.assign(step);
  collect(view_);
  team_.pool.run(job_);
  return next_ticket_(std::exchange(fault_, {}));
}

std::string CpuProgram::describe() const {
  std::string text = fmt::format("program {} on cpu: {} launches, {} levels, arena {} bytes\n", name_,
                                 lowered_.launches.size(), order_.level_count, arena_bytes_);
  for (const uint32_t index : by_level_) {
    text += fmt::format("  level {:3} {}\n", order_.levels[index], lowered_.launches[index]->name());
  }
  return text;
}

}  // namespace lily::cpu
