// Gated DeltaNet: one item is one key head of one run, with its value heads, its channels of the conv window and its
// states, so that items share nothing. Rows go through in chunks that end at snapshot positions.

#include <cstring>

#include "backend/cpu/mixer_launches.h"
#include "base/error.h"

namespace lily::cpu {
namespace {

template <typename T>
class GatedDeltaNetLaunch : public Launch {
 public:
  GatedDeltaNetLaunch(const KernelTable& kernels, const Plan& plan, const DeltaWeights& weights,
                      const GatedDeltaNet& op)
      : Launch("gated_delta_net", lily::accesses(Op(op))),
        kernels_(activation_kernels<T>(kernels)),
        shape_(plan.shape),
        slots_(plan.sizes.state_slots),
        weights_(weights),
        op_(op) {}

  uint64_t scratch_bytes() const override { return kDeltaScratch * sizeof(float); }
  uint32_t items(const StepView& step) const override {
    return static_cast<uint32_t>(step.step->runs.size()) * shape_.key_heads;
  }
  uint32_t grain(const StepView& step) const override { return step.rows > 1 ? 1 : 0; }

  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    for (uint32_t item = range.begin; item < range.end; ++item) {
      head(step.step->runs[item / shape_.key_heads], item % shape_.key_heads, worker);
    }
  }

 private:
  uint64_t state_elements() const { return uint64_t{shape_.value_heads} * kLinearHeadDim * kLinearHeadDim; }
  uint64_t window_elements() const { return uint64_t{kConvWidth - 1} * shape_.conv_channels(); }
  float* state(const Worker& worker, uint32_t slot) const {
    LILY_CHECK(slot < slots_, "state slot {} of {}", slot, slots_);
    return worker.memory->at<float>(op_.state) + slot * state_elements();
  }
  T* window(const Worker& worker, uint32_t slot) const {
    return worker.memory->at<T>(op_.window) + slot * window_elements();
  }

  /// Calls body(first channel, count) for the three channel ranges of a key head: q, k, and v of its value heads.
  template <typename Body>
  void each_channel_range(uint32_t key_head, const Body& body) const {
    const uint32_t values = shape_.value_heads_per_key() * kLinearHeadDim;
    body(key_head * kLinearHeadDim, kLinearHeadDim);
    body(shape_.key_dim() + key_head * kLinearHeadDim, kLinearHeadDim);
    body(2 * shape_.key_dim() + key_head * values, values);
  }

  void copy_head(const Worker& worker, uint32_t key_head, uint32_t from, uint32_t to) const {
    const uint64_t head_elements = uint64_t{shape_.value_heads_per_key()} * kLinearHeadDim * kLinearHeadDim;
    std::memcpy(state(worker, to) + key_head * head_elements, state(worker, from) + key_head * head_elements,
                head_elements * sizeof(float));
    each_channel_range(key_head, [&](uint32_t channel, uint32_t count) {
      for (uint32_t j = 0; j < kConvWidth - 1; ++j) {
        const uint64_t at = uint64_t{j} * shape_.conv_channels() + channel;
        std::memcpy(static_cast<void*>(window(worker, to) + at), window(worker, from) + at, count * sizeof(T));
      }
    });
  }

  void clear_head(const Worker& worker, uint32_t key_head, uint32_t slot) const {
    const uint64_t head_elements = uint64_t{shape_.value_heads_per_key()} * kLinearHeadDim * kLinearHeadDim;
    std::memset(state(worker, slot) + key_head * head_elements, 0, head_elements * sizeof(float));
    each_channel_range(key_head, [&](uint32_t channel, uint32_t count) {
      for (uint32_t j = 0; j < kConvWidth - 1; ++j) {
        std::memset(static_cast<void*>(window(worker, slot) + uint64_t{j} * shape_.conv_channels() + channel), 0,
                    count * sizeof(T));
      }
    });
  }

  /// Rows until the next snapshot or the end of the chunk.
  static uint32_t next_cut(const Run& run, uint32_t done) {
    uint32_t end = std::min(run.rows, done + kDeltaChunk);
    for (const StateSnapshot& snapshot : run.snapshots) {
      if (snapshot.rows_done > done) {
        end = std::min(end, snapshot.rows_done);
      }
    }
    return end;
  }

  void head(const Run& run, uint32_t key_head, const Worker& worker) const {
    if (run.first_position == 0) {
      clear_head(worker, key_head, run.state_out);
    } else if (run.state_in != run.state_out) {
      copy_head(worker, key_head, run.state_in, run.state_out);
    }
    const uint64_t proj_width = shape_.conv_channels() + shape_.value_dim() + 2 * uint64_t{shape_.value_heads};
    for (uint32_t done = 0; done < run.rows;) {
      const uint32_t end = next_cut(run, done);
      const uint64_t row = run.first_row + done;
      kernels_.delta({.proj = worker.memory->at<T>(op_.proj) + row * proj_width,
                      .proj_stride = proj_width,
                      .rows = end - done,
                      .key_head = key_head,
                      .key_heads = shape_.key_heads,
                      .value_heads = shape_.value_heads,
                      .conv = weights_.conv->plain.data(),
                      .a_log = weights_.a_log->plain.data(),
                      .dt_bias = weights_.dt_bias->plain.data(),
                      .norm = weights_.norm->plain.data(),
                      .rms_eps = shape_.rms_eps,
                      .window = window(worker, run.state_out),
                      .state = state(worker, run.state_out),
                      .out = worker.memory->at<T>(op_.out) + row * shape_.value_dim(),
                      .out_stride = shape_.value_dim(),
                      .scratch = reinterpret_cast<float*>(worker.scratch)});
      done = end;
      for (const StateSnapshot& snapshot : run.snapshots) {
        if (snapshot.rows_done == done && snapshot.slot != run.state_out) {
          copy_head(worker, key_head, run.state_out, snapshot.slot);
        }
      }
    }
  }

  const ActivationKernels<T>& kernels_;
  ModelShape shape_;
  uint32_t slots_;
  DeltaWeights weights_;
  GatedDeltaNet op_;
};

}  // namespace

template <typename T>
void lower_gated_delta_net(LaunchList& launches, const KernelTable& kernels, const Plan& plan,
                           const DeltaWeights& weights, const GatedDeltaNet& op) {
  launches.push_back(std::make_unique<GatedDeltaNetLaunch<T>>(kernels, plan, weights, op));
}

template void lower_gated_delta_net<Bf16>(LaunchList&, const KernelTable&, const Plan&, const DeltaWeights&,
                                          const GatedDeltaNet&);
template void lower_gated_delta_net<float>(LaunchList&, const KernelTable&, const Plan&, const DeltaWeights&,
                                           const GatedDeltaNet&);

}  // namespace lily::cpu
