#include "backend/cpu/lower.h"

#include <map>
#include <utility>

#include "backend/cpu/linear_launches.h"
#include "backend/cpu/mixer_launches.h"
#include "backend/cpu/moe_launches.h"
#include "backend/cpu/sample_launch.h"
#include "base/error.h"

namespace lily::cpu {
namespace {

template <typename T>
class Lowering {
 public:
  Lowering(const Plan& plan, const std::vector<const CpuWeight*>& weights, const KernelTable& kernels)
      : plan_(plan), weights_(weights), kernels_(kernels) {
    result_.buffers = plan.buffers;
  }

  Lowered take() {
    for (const Op& op : plan_.ops) {
      std::visit([this](const auto& o) { this->add(o); }, op);
    }
    return std::move(result_);
  }

 private:
  const CpuWeight& weight(Weight w) const { return *weights_.at(w.index); }
  const ModelShape& shape() const { return plan_.shape; }
  uint64_t rows() const { return plan_.options.max_rows; }
  LaunchList& launches() { return result_.launches; }

  Ref scratch(std::string name, uint64_t bytes) {
    result_.buffers.push_back({std::move(name), BufferKind::kTemp, bytes});
    return {static_cast<uint32_t>(result_.buffers.size() - 1), 0, bytes};
  }
  /// Room for prepared rows, or none when all steps have few rows.
  Ref prepared_scratch(uint64_t max_rows, uint32_t cols) {
    return max_rows > kFewRows ? scratch("prepared", PreparedLayout<T>::bytes(max_rows, cols)) : Ref{};
  }

  void add(const EmbedTokens& op) { lower_embed_tokens<T>(launches(), kernels_, weight(op.table), op); }

  void add(const NormLinear& op) {
    const InputRows input{
        .x = op.x, .gain = &weight(op.gain), .normed = {}, .eps = shape().rms_eps, .cols = weight(op.weight).cols};
    lower_linear<T>(launches(), "norm_linear", kernels_, weight(op.weight), input, {.out = op.out},
                    prepared_scratch(rows(), input.cols));
  }

  void add(const LinearResidual& op) {
    LILY_CHECK(weight(op.weight).rows % kBlockRows == 0, "linear_residual: {} rows", weight(op.weight).rows);
    const InputRows input{.x = op.x, .normed = {}, .cols = weight(op.weight).cols};
    lower_linear<T>(launches(), "linear_residual", kernels_, weight(op.weight), input,
                    {.out = op.residual, .end = LinearEnd::kAdd}, prepared_scratch(rows(), input.cols));
  }

  void add(const GatedDeltaNet& op) {
    const DeltaWeights vectors{&weight(op.conv), &weight(op.a_log), &weight(op.dt_bias), &weight(op.norm)};
    lower_gated_delta_net<T>(launches(), kernels_, plan_, vectors, op);
  }

  void add(const QkNormRopeAppend& op) {
    if (!angles_.valid()) {
      angles_ = scratch("rope_angles", rows() * kRotaryDim * sizeof(float));
      lower_rope_angles(launches(), shape(), angles_);
    }
    lower_qk_norm_rope_append<T>(launches(), kernels_, plan_, weight(op.q_norm), weight(op.k_norm), op, angles_);
  }

  void add(const Attention& op) { lower_attention<T>(launches(), kernels_, plan_, op); }

  void add(const NormRouter& op) {
    const InputRows input{.x = op.residual,
                          .gain = &weight(op.gain),
                          .normed = op.normed,
                          .eps = shape().rms_eps,
                          .cols = weight(op.router).cols};
    const Ref prepared = prepared_scratch(rows(), input.cols);
    prepared_normed_[op.normed.buffer] = prepared;  // the experts read the same rows
    lower_linear<T>(launches(), "norm_router", kernels_, weight(op.router), input,
                    {.out = op.logits, .end = LinearEnd::kStoreF32}, prepared);
  }

  MoeSizes moe_sizes() const {
    return {shape().experts, shape().experts_per_token, shape().hidden, shape().expert_intermediate,
            shape().shared_intermediate};
  }

  void add(const RouterTopK& op) { lower_router_top_k(launches(), moe_sizes(), op); }

  GroupRefs add_group(Ref experts, Ref groups, bool always) {
    const GroupRefs refs{groups, scratch("active_experts", (uint64_t{shape().experts} + 1) * sizeof(uint32_t))};
    lower_expert_group(launches(), moe_sizes(), experts, refs, always);
    groups_of_[experts.buffer] = refs;
    return refs;
  }

  void add(const ExpertGroup& op) { add_group(op.experts, op.groups, true); }

  /// The grouping of these expert ids: the plan's own, or one made here when a step may have more than one row.
  GroupRefs groups_for(Ref experts) {
    const auto found = groups_of_.find(experts.buffer);
    if (found != groups_of_.end()) {
      return found->second;
    }
    if (rows() == 1) {
      return {};
    }
    const uint64_t pairs = rows() * shape().experts_per_token;
    return add_group(experts, scratch("expert_groups", (shape().experts + 1 + pairs) * sizeof(uint32_t)), false);
  }

  void add(const ExpertGateUp& op) {
    ExpertBuffers buffers{.gate_up = &weight(op.gate_up), .shared_gate_up = &weight(op.shared_gate_up)};
    buffers.groups = groups_for(op.experts);
    const auto found = prepared_normed_.find(op.normed.buffer);
    if (found != prepared_normed_.end()) {
      buffers.prepared_in = found->second;
    } else {
      buffers.prepared_in = prepared_scratch(rows(), shape().hidden);
      if (buffers.prepared_in.valid()) {
        lower_prepare<T>(launches(), "expert_gate_up", kernels_, {.x = op.normed, .normed = {}, .cols = shape().hidden},
                         buffers.prepared_in);
      }
    }
    lower_expert_gate_up<T>(launches(), kernels_, moe_sizes(), op, buffers);
  }

  void add(const ExpertDownCombine& op) {
    ExpertBuffers buffers{.down = &weight(op.down), .shared_down = &weight(op.shared_down)};
    buffers.groups = groups_for(op.experts);
    if (rows() > 1) {
      const uint64_t k = shape().experts_per_token;
      buffers.prepared_hidden =
          scratch("prepared_hidden", PreparedLayout<T>::bytes(rows() * k, shape().expert_intermediate) +
                                         PreparedLayout<T>::bytes(rows(), shape().shared_intermediate));
      buffers.expert_out = scratch("expert_out", rows() * (k + 1) * shape().hidden * sizeof(float));
    }
    lower_expert_down_combine<T>(launches(), kernels_, moe_sizes(), op, buffers);
  }

  void add(const FinalNorm& op) { lower_final_norm<T>(launches(), kernels_, shape(), weight(op.gain), op); }

  void add(const LmHead& op) {
    const InputRows input{.x = op.x, .normed = {}, .cols = weight(op.weight).cols, .count = RowCount::kLogitRows};
    lower_linear<T>(launches(), "lm_head", kernels_, weight(op.weight), input,
                    {.out = op.logits, .end = LinearEnd::kStoreF32},
                    prepared_scratch(plan_.sizes.max_logit_rows, input.cols));
  }

  void add(const CaptureHidden& op) { lower_capture_hidden<T>(launches(), shape(), op); }
  void add(const Sample& op) { lower_sample(launches(), kernels_, shape(), plan_.sizes.max_logit_rows, op); }

  const Plan& plan_;
  const std::vector<const CpuWeight*>& weights_;
  const KernelTable& kernels_;
  Lowered result_;
  Ref angles_;
  std::map<uint32_t, Ref> prepared_normed_;  // by buffer of the normed rows
  std::map<uint32_t, GroupRefs> groups_of_;  // by buffer of the expert ids
};

}  // namespace

Lowered lower(const Plan& plan, const std::vector<const CpuWeight*>& weights, const KernelTable& kernels) {
  if (plan.options.activation == ActivationType::kBf16) {
    return Lowering<Bf16>(plan, weights, kernels).take();
  }
  return Lowering<float>(plan, weights, kernels).take();
}

}  // namespace lily::cpu
