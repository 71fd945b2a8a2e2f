// Top-k and grouping: which experts a row takes, and which rows an expert has.

#include <cmath>
#include <numeric>

#include "backend/cpu/moe_launches.h"

namespace lily::cpu {
namespace {

class RouterTopKLaunch : public Launch {
 public:
  RouterTopKLaunch(const MoeSizes& sizes, const RouterTopK& op)
      : Launch("router_top_k", lily::accesses(Op(op))), sizes_(sizes), op_(op) {}
  uint32_t items(const StepView& step) const override { return step.rows; }

  void run(const StepView&, ItemRange range, const Worker& worker) const override {
    const uint32_t k = sizes_.experts_per_token;
    for (uint32_t row = range.begin; row < range.end; ++row) {
      const float* logits = worker.memory->at<float>(op_.logits) + uint64_t{row} * (sizes_.experts + 1);
      uint32_t* experts = worker.memory->at<uint32_t>(op_.experts) + uint64_t{row} * k;
      float* scores = worker.memory->at<float>(op_.scores) + uint64_t{row} * (k + 1);
      select(logits, experts, scores);
      float total = 0.0F;
      const float top = scores[0];
      for (uint32_t j = 0; j < k; ++j) {
        scores[j] = std::exp(scores[j] - top);
        total += scores[j];
      }
      for (uint32_t j = 0; j < k; ++j) {
        scores[j] /= total;
      }
      scores[k] = 1.0F / (1.0F + std::exp(-logits[sizes_.experts]));
    }
  }

 private:
  /// The k largest logits, largest first; ties to the lower id. A NaN never wins a comparison, so ids stay distinct and
  /// valid.
  void select(const float* logits, uint32_t* experts, float* scores) const {
    const uint32_t k = sizes_.experts_per_token;
    uint32_t kept = 0;
    for (uint32_t expert = 0; expert < sizes_.experts; ++expert) {
      if (kept == k && !(logits[expert] > scores[k - 1])) {
        continue;
      }
      uint32_t at = kept < k ? kept++ : k - 1;
      while (at > 0 && logits[expert] > scores[at - 1]) {
        scores[at] = scores[at - 1];
        experts[at] = experts[at - 1];
        --at;
      }
      scores[at] = logits[expert];
      experts[at] = expert;
    }
  }

  MoeSizes sizes_;
  RouterTopK op_;
};

class ExpertGroupLaunch : public Launch {
 public:
  ExpertGroupLaunch(const MoeSizes& sizes, Ref experts, const GroupRefs& groups, bool always)
      : Launch("expert_group", {{experts, false}, {groups.groups, true}, {groups.active, true}}),
        sizes_(sizes),
        experts_(experts),
        groups_(groups),
        always_(always) {}
  uint32_t items(const StepView& step) const override { return always_ || step.rows > 1 ? 1 : 0; }

  void run(const StepView& step, ItemRange, const Worker& worker) const override {
    const uint32_t pairs = step.rows * sizes_.experts_per_token;
    const uint32_t* experts = worker.memory->at<uint32_t>(experts_);
    uint32_t* offsets = worker.memory->at<uint32_t>(groups_.groups);
    uint32_t* order = offsets + sizes_.experts + 1;
    uint32_t* active = worker.memory->at<uint32_t>(groups_.active);
    std::fill(offsets, offsets + sizes_.experts + 1, 0U);
    for (uint32_t pair = 0; pair < pairs; ++pair) {
      ++offsets[experts[pair] + 1];
    }
    active[0] = 0;
    for (uint32_t expert = 0; expert < sizes_.experts; ++expert) {
      if (offsets[expert + 1] != 0) {
        active[1 + active[0]++] = expert;
      }
      offsets[expert + 1] += offsets[expert];
    }
    // Scatter, then shift back: offsets[e] serves as the cursor of expert e.
    for (uint32_t pair = 0; pair < pairs; ++pair) {
      order[offsets[experts[pair]]++] = pair;
    }
    for (uint32_t expert = sizes_.experts; expert > 0; --expert) {
      offsets[expert] = offsets[expert - 1];
    }
    offsets[0] = 0;
  }

 private:
  MoeSizes sizes_;
  Ref experts_;
  GroupRefs groups_;
  bool always_;
};

}  // namespace

void lower_router_top_k(LaunchList& launches, const MoeSizes& sizes, const RouterTopK& op) {
  launches.push_back(std::make_unique<RouterTopKLaunch>(sizes, op));
}

void lower_expert_group(LaunchList& launches, const MoeSizes& sizes, Ref experts, const GroupRefs& groups,
                        bool always) {
  launches.push_back(std::make_unique<ExpertGroupLaunch>(sizes, experts, groups, always));
}

}  // namespace lily::cpu
