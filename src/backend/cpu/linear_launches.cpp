#include "backend/cpu/linear_launches.h"

#include <utility>

namespace lily::cpu {
namespace {

std::vector<Access> input_accesses(const InputRows& input) {
  std::vector<Access> list = {{input.x, false}};
  if (input.normed.valid()) {
    list.push_back({input.normed, true});
  }
  return list;
}

template <typename T>
class PrepareLaunch : public Launch {
 public:
  PrepareLaunch(std::string name, const KernelTable& kernels, const InputRows& input, Ref prepared,
                std::vector<Access> accesses)
      : Launch(std::move(name), std::move(accesses)),
        kernels_(activation_kernels<T>(kernels)),
        input_(input),
        prepared_(prepared) {}
  uint64_t scratch_bytes() const override { return ScratchCursor::rounded(input_.cols * sizeof(T)); }
  uint32_t items(const StepView& step) const override {
    const uint32_t rows = row_count(step, input_.count);
    return rows > kFewRows ? rows : 0;
  }
  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    const Prepared to =
        PreparedLayout<T>::place(worker.memory->at<std::byte>(prepared_), row_count(step, input_.count), input_.cols);
    prepare_rows(kernels_, input_, range, *worker.memory, to, reinterpret_cast<T*>(worker.scratch), true);
  }

 private:
  const ActivationKernels<T>& kernels_;
  InputRows input_;
  Ref prepared_;
};

template <typename T>
class LinearLaunch : public Launch {
 public:
  LinearLaunch(std::string name, const KernelTable& kernels, const CpuWeight& weight, const InputRows& input,
               const LinearOut& out, Ref prepared, std::vector<Access> accesses)
      : Launch(std::move(name), std::move(accesses)),
        kernels_(activation_kernels<T>(kernels)),
        float_kernels_(activation_kernels<float>(kernels)),
        weight_(weight),
        input_(input),
        out_(out),
        prepared_(prepared) {}

  uint64_t scratch_bytes() const override {
    return PreparedLayout<T>::bytes(kFewRows, input_.cols) + ScratchCursor::rounded(input_.cols * sizeof(T)) +
           kTileMax * kBlockRows * sizeof(float);
  }
  uint32_t items(const StepView& step) const override {
    const uint32_t rows = row_count(step, input_.count);
    return rows == 0 ? 0 : weight_.row_blocks() * tiles(rows);
  }
  uint32_t grain(const StepView& step) const override { return row_count(step, input_.count) > kFewRows ? 4 : 0; }

  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    const uint32_t rows = row_count(step, input_.count);
    ScratchCursor scratch(worker.scratch);
    float* acc = scratch.take<float>(kTileMax * kBlockRows);
    Prepared x;
    if (rows > kFewRows) {
      x = PreparedLayout<T>::place(worker.memory->at<std::byte>(prepared_), rows, input_.cols);
    } else {
      T* row_scratch = scratch.take<T>(input_.cols);
      x = PreparedLayout<T>::place(scratch.take<std::byte>(PreparedLayout<T>::bytes(rows, input_.cols)), rows,
                                   input_.cols);
      prepare_rows(kernels_, input_, {0, rows}, *worker.memory, x, row_scratch, range.begin == 0);
    }
    for (uint32_t item = range.begin; item < range.end; ++item) {
      const uint32_t block = item % weight_.row_blocks();
      const uint32_t first = item / weight_.row_blocks() * kTileMax;
      const uint32_t count = std::min(kTileMax, rows - first);
      kernels_.linear({.block = weight_.block(0, block),
                       .bits = weight_.bits,
                       .groups = weight_.groups(),
                       .x = x,
                       .first = first,
                       .count = count,
                       .out = acc});
      finish(acc, block, first, count, *worker.memory);
    }
  }

 private:
  static uint32_t tiles(uint32_t rows) { return (rows + kTileMax - 1) / kTileMax; }

  void finish(const float* acc, uint32_t block, uint32_t first, uint32_t count, const Addresses& memory) const {
    const uint64_t offset = uint64_t{first} * weight_.rows + uint64_t{block} * kBlockRows;
    const uint32_t n = std::min(kBlockRows, weight_.rows - block * kBlockRows);
    switch (out_.end) {
      case LinearEnd::kStore:
        kernels_.store_tile(acc, count, n, memory.at<T>(out_.out) + offset, weight_.rows);
        break;
      case LinearEnd::kAdd:
        kernels_.add_tile(acc, count, memory.at<T>(out_.out) + offset, weight_.rows);
        break;
      case LinearEnd::kStoreF32:
        float_kernels_.store_tile(acc, count, n, memory.at<float>(out_.out) + offset, weight_.rows);
        break;
    }
  }

  const ActivationKernels<T>& kernels_;
  const ActivationKernels<float>& float_kernels_;
  const CpuWeight& weight_;
  InputRows input_;
  LinearOut out_;
  Ref prepared_;
};

}  // namespace

template <typename T>
void prepare_rows(const ActivationKernels<T>& kernels, const InputRows& input, ItemRange rows, const Addresses& memory,
                  Prepared to, T* row_scratch, bool write_normed) {
  const T* x = memory.at<T>(input.x);
  for (uint32_t row = rows.begin; row < rows.end; ++row) {
    const T* from = x + uint64_t{row} * input.cols;
    if (input.gain != nullptr) {
      T* normed =
          input.normed.valid() && write_normed ? memory.at<T>(input.normed) + uint64_t{row} * input.cols : row_scratch;
      kernels.rms_norm(from, input.gain->plain.data(), input.eps, input.cols, normed);
      from = normed;
    }
    kernels.prepare(from, input.cols, to, row);
  }
}

template <typename T>
void lower_prepare(std::vector<std::unique_ptr<Launch>>& launches, const std::string& name, const KernelTable& kernels,
                   const InputRows& input, Ref prepared) {
  std::vector<Access> accesses = input_accesses(input);
  accesses.push_back({prepared, true});
  launches.push_back(
      std::make_unique<PrepareLaunch<T>>(name + ".prepare", kernels, input, prepared, std::move(accesses)));
}

template <typename T>
void lower_linear(std::vector<std::unique_ptr<Launch>>& launches, const std::string& name, const KernelTable& kernels,
                  const CpuWeight& weight, const InputRows& input, const LinearOut& out, Ref prepared) {
  std::vector<Access> accesses = input_accesses(input);
  accesses.push_back({out.out, true});
  if (prepared.valid()) {
    lower_prepare<T>(launches, name, kernels, input, prepared);
    accesses.push_back({prepared, false});
  }
  launches.push_back(
      std::make_unique<LinearLaunch<T>>(name, kernels, weight, input, out, prepared, std::move(accesses)));
}

template void prepare_rows(const ActivationKernels<Bf16>&, const InputRows&, ItemRange, const Addresses&, Prepared,
                           Bf16*, bool);
template void prepare_rows(const ActivationKernels<float>&, const InputRows&, ItemRange, const Addresses&, Prepared,
                           float*, bool);
template void lower_prepare<Bf16>(std::vector<std::unique_ptr<Launch>>&, const std::string&, const KernelTable&,
                                  const InputRows&, Ref);
template void lower_prepare<float>(std::vector<std::unique_ptr<Launch>>&, const std::string&, const KernelTable&,
                                   const InputRows&, Ref);
template void lower_linear<Bf16>(std::vector<std::unique_ptr<Launch>>&, const std::string&, const KernelTable&,
                                 const CpuWeight&, const InputRows&, const LinearOut&, Ref);
template void lower_linear<float>(std::vector<std::unique_ptr<Launch>>&, const std::string&, const KernelTable&,
                                  const CpuWeight&, const InputRows&, const LinearOut&, Ref);

}  // namespace lily::cpu
