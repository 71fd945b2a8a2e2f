// Launches of the mixture of experts: top-k, grouping, gate|up with SiLU, down with the weighted sum.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/launch.h"

namespace lily::cpu {

struct MoeSizes {
  uint32_t experts = 0;
  uint32_t experts_per_token = 0;
  uint32_t hidden = 0;
  uint32_t intermediate = 0;
  uint32_t shared_intermediate = 0;
};

/// Rows grouped by expert. `groups` as in ExpertGroup; `active`: [1 + E] u32, the number of experts with rows, then
/// their ids.
struct GroupRefs {
  Ref groups;
  Ref active;
};

using LaunchList = std::vector<std::unique_ptr<Launch>>;

void lower_router_top_k(LaunchList& launches, const MoeSizes& sizes, const RouterTopK& op);

/// `always`: group even a single row (the op is part of the plan); otherwise only steps with more than one row need it.
void lower_expert_group(LaunchList& launches, const MoeSizes& sizes, Ref experts, const GroupRefs& groups, bool always);

/// Weights and buffers of one layer's experts.
struct ExpertBuffers {
  const CpuWeight* gate_up = nullptr;
  const CpuWeight* shared_gate_up = nullptr;
  const CpuWeight* down = nullptr;
  const CpuWeight* shared_down = nullptr;
  GroupRefs groups{};
  Ref prepared_in{};      // prepared rows of `normed`, unset when a step never has more than kFewRows rows
  Ref prepared_hidden{};  // prepared rows of expert and shared hidden, unset when a step never has more than one row
  Ref expert_out{};       // [rows, k + 1, H] f32, unset likewise
};

template <typename T>
void lower_expert_gate_up(LaunchList& launches, const KernelTable& kernels, const MoeSizes& sizes,
                          const ExpertGateUp& op, const ExpertBuffers& buffers);
template <typename T>
void lower_expert_down_combine(LaunchList& launches, const KernelTable& kernels, const MoeSizes& sizes,
                               const ExpertDownCombine& op, const ExpertBuffers& buffers);

}  // namespace lily::cpu
