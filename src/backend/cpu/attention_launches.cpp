// Attention: rotary angles once a step, q and k norm with the append to the KV blocks, and the attention itself.

#include <cmath>

#include "backend/cpu/mixer_launches.h"
#include "base/error.h"

namespace lily::cpu {
namespace {

class RopeAnglesLaunch : public Launch {
 public:
  RopeAnglesLaunch(const ModelShape& shape, Ref angles) : Launch("rope_angles", {{angles, true}}), angles_(angles) {
    for (uint32_t j = 0; j < kRotaryDim / 2; ++j) {
      const float exponent = static_cast<float>(2 * j) / static_cast<float>(kRotaryDim);
      inverse_[j] = 1.0F / std::pow(shape.rope_theta, exponent);
    }
  }
  uint32_t items(const StepView& step) const override { return step.rows; }
  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    for (uint32_t row = range.begin; row < range.end; ++row) {
      float* out = worker.memory->at<float>(angles_) + uint64_t{row} * kRotaryDim;
      for (uint32_t j = 0; j < kRotaryDim / 2; ++j) {
        // The angle is a float product as in the reference; its sine and cosine are taken in double, so that they are
        // exact to a float.
        const float angle = static_cast<float>(step.row_position[row]) * inverse_[j];
        out[j] = static_cast<float>(std::cos(static_cast<double>(angle)));
        out[kRotaryDim / 2 + j] = static_cast<float>(std::sin(static_cast<double>(angle)));
      }
    }
  }

 private:
  Ref angles_;
  float inverse_[kRotaryDim / 2] = {};
};

/// The block table row of a run.
const uint32_t* blocks_of(const Addresses& memory, Ref table, const Run& run, uint32_t blocks_a_sequence) {
  return memory.at<uint32_t>(table) + uint64_t{run.sequence} * blocks_a_sequence;
}

template <typename T>
class QkNormRopeAppendLaunch : public Launch {
 public:
  QkNormRopeAppendLaunch(const KernelTable& kernels, const Plan& plan, const CpuWeight& q_norm, const CpuWeight& k_norm,
                         const QkNormRopeAppend& op, Ref angles)
      : Launch("qk_norm_rope_append", with_angles(op, angles)),
        kernels_(activation_kernels<T>(kernels)),
        shape_(plan.shape),
        blocks_a_sequence_(plan.sizes.blocks_a_sequence),
        kv_blocks_(plan.sizes.kv_blocks),
        q_norm_(q_norm),
        k_norm_(k_norm),
        op_(op),
        angles_(angles) {}
  uint32_t items(const StepView& step) const override { return step.rows; }

  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    for (uint32_t row = range.begin; row < range.end; ++row) {
      append(step, row, *worker.memory);
    }
  }

 private:
  static std::vector<Access> with_angles(const QkNormRopeAppend& op, Ref angles) {
    std::vector<Access> list = lily::accesses(Op(op));
    list.push_back({angles, false});
    return list;
  }

  void append(const StepView& step, uint32_t row, const Addresses& memory) const {
    const uint64_t width = 2 * uint64_t{shape_.query_dim()} + 2 * uint64_t{shape_.kv_dim()};
    const T* proj = memory.at<T>(op_.proj) + row * width;
    const float* angles = memory.at<float>(angles_) + uint64_t{row} * kRotaryDim;
    T* query = memory.at<T>(op_.query) + uint64_t{row} * shape_.query_dim();
    for (uint32_t head = 0; head < shape_.query_heads; ++head) {
      kernels_.norm_rope(proj + uint64_t{head} * 2 * kHeadDim, q_norm_.plain.data(), shape_.rms_eps, angles,
                         query + uint64_t{head} * kHeadDim);
    }
    const uint32_t position = step.row_position[row];
    const Run& run = step.step->runs[step.row_run[row]];
    const uint32_t block = blocks_of(memory, op_.block_table, run, blocks_a_sequence_)[position / kKvBlock];
    LILY_CHECK(block < kv_blocks_, "KV block {} of {}", block, kv_blocks_);
    const uint32_t token = position % kKvBlock;
    const T* keys = proj + 2 * uint64_t{shape_.query_dim()};
    const T* values = keys + shape_.kv_dim();
    for (uint32_t head = 0; head < shape_.kv_heads; ++head) {
      const uint64_t at = (uint64_t{block} * shape_.kv_heads + head) * kKvBlock * kHeadDim;
      T key[kHeadDim];
      kernels_.norm_rope(keys + uint64_t{head} * kHeadDim, k_norm_.plain.data(), shape_.rms_eps, angles, key);
      T* key_block = memory.at<T>(op_.keys) + at;
      for (uint32_t dim = 0; dim < kHeadDim; ++dim) {
        key_block[uint64_t{dim} * kKvBlock + token] = key[dim];
      }
      std::copy_n(values + uint64_t{head} * kHeadDim, kHeadDim,
                  memory.at<T>(op_.values) + at + uint64_t{token} * kHeadDim);
    }
  }

  const ActivationKernels<T>& kernels_;
  ModelShape shape_;
  uint32_t blocks_a_sequence_;
  uint32_t kv_blocks_;
  const CpuWeight& q_norm_;
  const CpuWeight& k_norm_;
  QkNormRopeAppend op_;
  Ref angles_;
};

/// Items: (group of query heads, row), rows fastest, so that a thread walks rows over the same keys.
template <typename T>
class AttentionLaunch : public Launch {
 public:
  AttentionLaunch(const KernelTable& kernels, const Plan& plan, const Attention& op)
      : Launch("attention", lily::accesses(Op(op))),
        kernels_(activation_kernels<T>(kernels)),
        shape_(plan.shape),
        blocks_a_sequence_(plan.sizes.blocks_a_sequence),
        op_(op) {}
  uint64_t scratch_bytes() const override { return kAttentionScratch * sizeof(float); }
  uint32_t items(const StepView& step) const override { return step.rows * shape_.kv_heads * groups_a_kv_head(); }
  uint32_t grain(const StepView& step) const override { return step.rows > kFewRows ? 8 : 1; }

  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    for (uint32_t item = range.begin; item < range.end; ++item) {
      heads(step, item % step.rows, item / step.rows, worker);
    }
  }

 private:
  uint32_t groups_a_kv_head() const { return (shape_.heads_per_kv() + kMaxHeadGroup - 1) / kMaxHeadGroup; }

  void heads(const StepView& step, uint32_t row, uint32_t group, const Worker& worker) const {
    const Addresses& memory = *worker.memory;
    const uint32_t kv_head = group / groups_a_kv_head();
    const uint32_t first_in_kv = group % groups_a_kv_head() * kMaxHeadGroup;
    const uint32_t head = kv_head * shape_.heads_per_kv() + first_in_kv;
    const uint64_t width = 2 * uint64_t{shape_.query_dim()} + 2 * uint64_t{shape_.kv_dim()};
    const uint64_t at = uint64_t{row} * shape_.query_dim() + uint64_t{head} * kHeadDim;
    kernels_.attention(
        {.query = memory.at<T>(op_.query) + at,
         .gate = memory.at<T>(op_.proj) + row * width + uint64_t{head} * 2 * kHeadDim + kHeadDim,
         .gate_stride = 2 * kHeadDim,
         .heads = std::min(kMaxHeadGroup, shape_.heads_per_kv() - first_in_kv),
         .positions = step.row_position[row] + 1,
         .keys = memory.at<T>(op_.keys),
         .values = memory.at<T>(op_.values),
         .kv_head = kv_head,
         .kv_heads = shape_.kv_heads,
         .blocks = blocks_of(memory, op_.block_table, step.step->runs[step.row_run[row]], blocks_a_sequence_),
         .out = memory.at<T>(op_.out) + at,
         .scratch = reinterpret_cast<float*>(worker.scratch)});
  }

  const ActivationKernels<T>& kernels_;
  ModelShape shape_;
  uint32_t blocks_a_sequence_;
  Attention op_;
};

}  // namespace

void lower_rope_angles(LaunchList& launches, const ModelShape& shape, Ref angles) {
  launches.push_back(std::make_unique<RopeAnglesLaunch>(shape, angles));
}
template <typename T>
void lower_qk_norm_rope_append(LaunchList& launches, const KernelTable& kernels, const Plan& plan,
                               const CpuWeight& q_norm, const CpuWeight& k_norm, const QkNormRopeAppend& op,
                               Ref angles) {
  launches.push_back(std::make_unique<QkNormRopeAppendLaunch<T>>(kernels, plan, q_norm, k_norm, op, angles));
}
template <typename T>
void lower_attention(LaunchList& launches, const KernelTable& kernels, const Plan& plan, const Attention& op) {
  launches.push_back(std::make_unique<AttentionLaunch<T>>(kernels, plan, op));
}

template void lower_qk_norm_rope_append<Bf16>(LaunchList&, const KernelTable&, const Plan&, const CpuWeight&,
                                              const CpuWeight&, const QkNormRopeAppend&, Ref);
template void lower_qk_norm_rope_append<float>(LaunchList&, const KernelTable&, const Plan&, const CpuWeight&,
                                               const CpuWeight&, const QkNormRopeAppend&, Ref);
template void lower_attention<Bf16>(LaunchList&, const KernelTable&, const Plan&, const Attention&);
template void lower_attention<float>(LaunchList&, const KernelTable&, const Plan&, const Attention&);

}  // namespace lily::cpu
