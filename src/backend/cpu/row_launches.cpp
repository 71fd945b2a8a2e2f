// Launches whose items are rows: embedding, final norm, copy of the residual stream.

#include <cstring>

#include "backend/cpu/mixer_launches.h"
#include "base/error.h"

namespace lily::cpu {
namespace {

template <typename T>
class EmbedTokensLaunch : public Launch {
 public:
  EmbedTokensLaunch(const KernelTable& kernels, const CpuWeight& table, const EmbedTokens& op)
      : Launch("embed_tokens", lily::accesses(Op(op))),
        kernels_(activation_kernels<T>(kernels)),
        table_(table),
        op_(op) {}
  uint32_t items(const StepView& step) const override { return step.rows; }
  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    const int32_t* mailbox = worker.memory->at<int32_t>(op_.mailbox);
    for (uint32_t row = range.begin; row < range.end; ++row) {
      const int32_t source = step.step->tokens[row];
      const int32_t token = source >= 0 ? source : mailbox[-1 - source];
      LILY_CHECK(token >= 0 && static_cast<uint32_t>(token) < table_.rows, "token id {} outside the table of {} rows",
                 token, table_.rows);
      kernels_.embed(table_.block(0, 0), table_.bits, table_.groups(), static_cast<uint32_t>(token),
                     worker.memory->at<T>(op_.out) + uint64_t{row} * table_.cols);
    }
  }

 private:
  const ActivationKernels<T>& kernels_;
  const CpuWeight& table_;
  EmbedTokens op_;
};

template <typename T>
class FinalNormLaunch : public Launch {
 public:
  FinalNormLaunch(const KernelTable& kernels, const ModelShape& shape, const CpuWeight& gain, const FinalNorm& op)
      : Launch("final_norm", lily::accesses(Op(op))),
        kernels_(activation_kernels<T>(kernels)),
        gain_(gain),
        hidden_(shape.hidden),
        eps_(shape.rms_eps),
        op_(op) {}
  uint32_t items(const StepView& step) const override { return step.logit_rows; }
  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    for (uint32_t i = range.begin; i < range.end; ++i) {
      kernels_.rms_norm(worker.memory->at<T>(op_.residual) + uint64_t{step.logit_row_row[i]} * hidden_,
                        gain_.plain.data(), eps_, hidden_, worker.memory->at<T>(op_.out) + uint64_t{i} * hidden_);
    }
  }

 private:
  const ActivationKernels<T>& kernels_;
  const CpuWeight& gain_;
  uint32_t hidden_;
  float eps_;
  FinalNorm op_;
};

template <typename T>
class CaptureHiddenLaunch : public Launch {
 public:
  CaptureHiddenLaunch(const ModelShape& shape, const CaptureHidden& op)
      : Launch("capture_hidden", lily::accesses(Op(op))), row_bytes_(shape.hidden * sizeof(T)), op_(op) {}
  uint32_t items(const StepView& step) const override { return step.rows; }
  void run(const StepView&, ItemRange range, const Worker& worker) const override {
    std::memcpy(worker.memory->at<std::byte>(op_.out) + range.begin * row_bytes_,
                worker.memory->at<std::byte>(op_.residual) + range.begin * row_bytes_,
                (range.end - range.begin) * row_bytes_);
  }

 private:
  uint64_t row_bytes_;
  CaptureHidden op_;
};

}  // namespace

template <typename T>
void lower_embed_tokens(LaunchList& launches, const KernelTable& kernels, const CpuWeight& table,
                        const EmbedTokens& op) {
  launches.push_back(std::make_unique<EmbedTokensLaunch<T>>(kernels, table, op));
}
template <typename T>
void lower_final_norm(LaunchList& launches, const KernelTable& kernels, const ModelShape& shape, const CpuWeight& gain,
                      const FinalNorm& op) {
  launches.push_back(std::make_unique<FinalNormLaunch<T>>(kernels, shape, gain, op));
}
template <typename T>
void lower_capture_hidden(LaunchList& launches, const ModelShape& shape, const CaptureHidden& op) {
  launches.push_back(std::make_unique<CaptureHiddenLaunch<T>>(shape, op));
}

template void lower_embed_tokens<Bf16>(LaunchList&, const KernelTable&, const CpuWeight&, const EmbedTokens&);
template void lower_embed_tokens<float>(LaunchList&, const KernelTable&, const CpuWeight&, const EmbedTokens&);
template void lower_final_norm<Bf16>(LaunchList&, const KernelTable&, const ModelShape&, const CpuWeight&,
                                     const FinalNorm&);
template void lower_final_norm<float>(LaunchList&, const KernelTable&, const ModelShape&, const CpuWeight&,
                                      const FinalNorm&);
template void lower_capture_hidden<Bf16>(LaunchList&, const ModelShape&, const CaptureHidden&);
template void lower_capture_hidden<float>(LaunchList&, const ModelShape&, const CaptureHidden&);

}  // namespace lily::cpu
