// The experts' products. One row takes the direct route: its experts' blocks are read as chosen. More rows are grouped,
// so every expert's weights are read once a step; sums keep the top-k order either way.

#include <cstring>

#include "backend/cpu/linear_launches.h"
#include "backend/cpu/moe_launches.h"

namespace lily::cpu {
namespace {

uint32_t tiles(uint32_t rows) {
  return (rows + kTileMax - 1) / kTileMax;
}

/// Item numbering of a grouped launch: (active expert, block) first, then (shared tile, block).
struct ItemSpace {
  uint32_t experts;        // upper bound of active experts
  uint32_t blocks;         // row blocks of one expert
  uint32_t shared_blocks;  // row blocks of the shared expert
  uint32_t shared_tiles;
  uint32_t expert_items() const { return experts * blocks; }
  uint32_t items() const { return expert_items() + shared_tiles * shared_blocks; }
};

ItemSpace item_space(const StepView& step, const MoeSizes& sizes, uint32_t blocks, uint32_t shared_blocks) {
  const uint32_t active =
      step.rows == 1 ? sizes.experts_per_token : std::min(sizes.experts, step.rows * sizes.experts_per_token);
  return {active, blocks, shared_blocks, tiles(step.rows)};
}

/// Pairs (row · k + choice) of the expert in place `slot` of the active list; empty beyond the list.
struct ExpertPairs {
  uint32_t expert = 0;
  const uint32_t* pairs = nullptr;
  uint32_t count = 0;
};

ExpertPairs expert_pairs(const Addresses& memory, const GroupRefs& groups, uint32_t experts, uint32_t slot) {
  const uint32_t* active = memory.at<uint32_t>(groups.active);
  if (slot >= active[0]) {
    return {};
  }
  const uint32_t expert = active[1 + slot];
  const uint32_t* offsets = memory.at<uint32_t>(groups.groups);
  return {expert, offsets + experts + 1 + offsets[expert], offsets[expert + 1] - offsets[expert]};
}

template <typename T>
class ExpertGateUpLaunch : public Launch {
 public:
  ExpertGateUpLaunch(const KernelTable& kernels, const MoeSizes& sizes, const ExpertGateUp& op,
                     const ExpertBuffers& buffers, std::vector<Access> accesses)
      : Launch("expert_gate_up", std::move(accesses)),
        kernels_(activation_kernels<T>(kernels)),
        sizes_(sizes),
        op_(op),
        buffers_(buffers),
        input_{.x = op.normed, .normed = {}, .cols = sizes.hidden} {}

  uint64_t scratch_bytes() const override {
    return PreparedLayout<T>::bytes(kFewRows, sizes_.hidden) + 2 * kTileMax * kBlockRows * sizeof(float);
  }
  uint32_t items(const StepView& step) const override { return space(step).items(); }
  uint32_t grain(const StepView& step) const override { return step.rows > 1 ? 2 : 0; }

  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    ScratchCursor scratch(worker.scratch);
    float* acc = scratch.take<float>(2 * kTileMax * kBlockRows);
    Prepared x;
    if (step.rows > kFewRows) {
      x = PreparedLayout<T>::place(worker.memory->at<std::byte>(buffers_.prepared_in), step.rows, sizes_.hidden);
    } else {
      x = PreparedLayout<T>::place(scratch.take<std::byte>(PreparedLayout<T>::bytes(step.rows, sizes_.hidden)),
                                   step.rows, sizes_.hidden);
      prepare_rows<T>(kernels_, input_, {0, step.rows}, *worker.memory, x, nullptr, false);
    }
    const ItemSpace all = space(step);
    for (uint32_t item = range.begin; item < range.end; ++item) {
      if (item < all.expert_items()) {
        expert_item(step, item / all.blocks, item % all.blocks, x, acc, *worker.memory);
      } else {
        const uint32_t shared = item - all.expert_items();
        shared_item(step, shared / all.shared_blocks, shared % all.shared_blocks, x, acc, *worker.memory);
      }
    }
  }

 private:
  ItemSpace space(const StepView& step) const {
    return item_space(step, sizes_, blocks(sizes_.intermediate), blocks(sizes_.shared_intermediate));
  }
  static uint32_t blocks(uint32_t rows) { return rows / kBlockRows; }

  /// gate and up of one block of 16 rows for the tile's inputs, then silu(gate) · up to `out`.
  void tile_item(LinearTile tile, const CpuWeight& weight, uint32_t expert, uint32_t block, T* out, float* acc,
                 uint32_t width) const {
    tile.bits = weight.bits;
    tile.groups = weight.groups();
    tile.block = weight.block(expert, block);
    tile.out = acc;
    kernels_.linear(tile);
    tile.block = weight.block(expert, blocks(width) + block);
    tile.out = acc + kTileMax * kBlockRows;
    kernels_.linear(tile);
    kernels_.silu_mul_tile(acc, tile.out, tile.count, tile.indices, tile.first, out + block * kBlockRows, width);
  }

  void expert_item(const StepView& step, uint32_t slot, uint32_t block, Prepared x, float* acc,
                   const Addresses& memory) const {
    T* hidden = memory.at<T>(op_.hidden);
    if (step.rows == 1) {
      const uint32_t expert = memory.at<uint32_t>(op_.experts)[slot];
      const uint32_t pair = slot;
      tile_item({.x = x, .indices = &pair, .count = 1, .index_divisor = sizes_.experts_per_token}, *buffers_.gate_up,
                expert, block, hidden, acc, sizes_.intermediate);
      return;
    }
    const ExpertPairs group = expert_pairs(memory, buffers_.groups, sizes_.experts, slot);
    for (uint32_t done = 0; done < group.count; done += kTileMax) {
      tile_item({.x = x,
                 .indices = group.pairs + done,
                 .count = std::min(kTileMax, group.count - done),
                 .index_divisor = sizes_.experts_per_token},
                *buffers_.gate_up, group.expert, block, hidden, acc, sizes_.intermediate);
    }
  }

  void shared_item(const StepView& step, uint32_t tile, uint32_t block, Prepared x, float* acc,
                   const Addresses& memory) const {
    const uint32_t first = tile * kTileMax;
    tile_item({.x = x, .first = first, .count = std::min(kTileMax, step.rows - first)}, *buffers_.shared_gate_up, 0,
              block, memory.at<T>(op_.shared_hidden), acc, sizes_.shared_intermediate);
  }

  const ActivationKernels<T>& kernels_;
  MoeSizes sizes_;
  ExpertGateUp op_;
  ExpertBuffers buffers_;
  InputRows input_;
};

/// Places of the prepared hidden rows in one buffer: expert pairs first, shared rows after them.
template <typename T>
struct HiddenPlaces {
  Prepared pairs;
  Prepared shared;
  static uint64_t bytes(const MoeSizes& sizes, uint32_t rows) {
    return PreparedLayout<T>::bytes(uint64_t{rows} * sizes.experts_per_token, sizes.intermediate) +
           PreparedLayout<T>::bytes(rows, sizes.shared_intermediate);
  }
  static HiddenPlaces place(std::byte* memory, const MoeSizes& sizes, uint32_t rows) {
    const uint32_t pairs = rows * sizes.experts_per_token;
    return {PreparedLayout<T>::place(memory, pairs, sizes.intermediate),
            PreparedLayout<T>::place(memory + PreparedLayout<T>::bytes(pairs, sizes.intermediate), rows,
                                     sizes.shared_intermediate)};
  }
};

template <typename T>
void prepare_hidden(const ActivationKernels<T>& kernels, const MoeSizes& sizes, const ExpertDownCombine& op,
                    ItemRange rows, const Addresses& memory, const HiddenPlaces<T>& to) {
  const uint32_t k = sizes.experts_per_token;
  const InputRows pairs{.x = op.hidden, .normed = {}, .cols = sizes.intermediate};
  const InputRows shared{.x = op.shared_hidden, .normed = {}, .cols = sizes.shared_intermediate};
  prepare_rows<T>(kernels, pairs, {rows.begin * k, rows.end * k}, memory, to.pairs, nullptr, false);
  prepare_rows<T>(kernels, shared, rows, memory, to.shared, nullptr, false);
}

template <typename T>
class PrepareHiddenLaunch : public Launch {
 public:
  PrepareHiddenLaunch(const KernelTable& kernels, const MoeSizes& sizes, const ExpertDownCombine& op, Ref prepared)
      : Launch("expert_down_combine.prepare", {{op.hidden, false}, {op.shared_hidden, false}, {prepared, true}}),
        kernels_(activation_kernels<T>(kernels)),
        sizes_(sizes),
        op_(op),
        prepared_(prepared) {}
  uint32_t items(const StepView& step) const override { return step.rows > 1 ? step.rows : 0; }
  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    prepare_hidden<T>(kernels_, sizes_, op_, range, *worker.memory,
                      HiddenPlaces<T>::place(worker.memory->at<std::byte>(prepared_), sizes_, step.rows));
  }

 private:
  const ActivationKernels<T>& kernels_;
  MoeSizes sizes_;
  ExpertDownCombine op_;
  Ref prepared_;
};

/// Every expert's output rows, unscaled, in f32: expert_out[row][choice][H], the shared expert last.
template <typename T>
class ExpertDownLaunch : public Launch {
 public:
  ExpertDownLaunch(const KernelTable& kernels, const MoeSizes& sizes, const ExpertBuffers& buffers,
                   std::vector<Access> accesses)
      : Launch("expert_down_combine.down", std::move(accesses)),
        kernels_(activation_kernels<T>(kernels)),
        sizes_(sizes),
        buffers_(buffers) {}
  uint64_t scratch_bytes() const override { return kTileMax * kBlockRows * sizeof(float); }
  uint32_t items(const StepView& step) const override { return step.rows > 1 ? space(step).items() : 0; }
  uint32_t grain(const StepView&) const override { return 4; }

  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    const Addresses& memory = *worker.memory;
    const auto places = HiddenPlaces<T>::place(memory.at<std::byte>(buffers_.prepared_hidden), sizes_, step.rows);
    float* acc = reinterpret_cast<float*>(worker.scratch);
    const ItemSpace all = space(step);
    for (uint32_t item = range.begin; item < range.end; ++item) {
      if (item < all.expert_items()) {
        expert_item(item / all.blocks, item % all.blocks, places.pairs, acc, memory);
      } else {
        const uint32_t shared = item - all.expert_items();
        shared_item(step, shared / all.blocks, shared % all.blocks, places.shared, acc, memory);
      }
    }
  }

 private:
  ItemSpace space(const StepView& step) const {
    const uint32_t blocks = sizes_.hidden / kBlockRows;
    return item_space(step, sizes_, blocks, blocks);
  }

  void expert_item(uint32_t slot, uint32_t block, Prepared x, float* acc, const Addresses& memory) const {
    const uint32_t k = sizes_.experts_per_token;
    const ExpertPairs group = expert_pairs(memory, buffers_.groups, sizes_.experts, slot);
    for (uint32_t done = 0; done < group.count; done += kTileMax) {
      const uint32_t count = std::min(kTileMax, group.count - done);
      kernels_.linear({.block = buffers_.down->block(group.expert, block),
                       .bits = buffers_.down->bits,
                       .groups = buffers_.down->groups(),
                       .x = x,
                       .indices = group.pairs + done,
                       .count = count,
                       .out = acc});
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t pair = group.pairs[done + i];
        write(memory, uint64_t{pair / k} * (k + 1) + pair % k, block, acc + i * kBlockRows);
      }
    }
  }

  void shared_item(const StepView& step, uint32_t tile, uint32_t block, Prepared x, float* acc,
                   const Addresses& memory) const {
    const uint32_t k = sizes_.experts_per_token;
    const uint32_t first = tile * kTileMax;
    const uint32_t count = std::min(kTileMax, step.rows - first);
    kernels_.linear({.block = buffers_.shared_down->block(0, block),
                     .bits = buffers_.shared_down->bits,
                     .groups = buffers_.shared_down->groups(),
                     .x = x,
                     .first = first,
                     .count = count,
                     .out = acc});
    for (uint32_t i = 0; i < count; ++i) {
      write(memory, uint64_t{first + i} * (k + 1) + k, block, acc + i * kBlockRows);
    }
  }

  void write(const Addresses& memory, uint64_t out_row, uint32_t block, const float* sums) const {
    std::memcpy(memory.at<float>(buffers_.expert_out) + out_row * sizes_.hidden + uint64_t{block} * kBlockRows, sums,
                kBlockRows * sizeof(float));
  }

  const ActivationKernels<T>& kernels_;
  MoeSizes sizes_;
  ExpertBuffers buffers_;
};

/// Adds the scored sum to the residual. One row: products and sum in one launch, item = block of 16 outputs. More: item
/// = row.
template <typename T>
class ExpertCombineLaunch : public Launch {
 public:
  ExpertCombineLaunch(const KernelTable& kernels, const MoeSizes& sizes, const ExpertDownCombine& op,
                      const ExpertBuffers& buffers, std::vector<Access> accesses)
      : Launch("expert_down_combine", std::move(accesses)),
        kernels_(activation_kernels<T>(kernels)),
        sizes_(sizes),
        op_(op),
        buffers_(buffers) {}
  uint64_t scratch_bytes() const override {
    return HiddenPlaces<T>::bytes(sizes_, 1) + uint64_t{sizes_.experts_per_token + 1} * kBlockRows * sizeof(float);
  }
  uint32_t items(const StepView& step) const override {
    return step.rows == 1 ? sizes_.hidden / kBlockRows : step.rows;
  }

  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    const Addresses& memory = *worker.memory;
    const uint32_t k = sizes_.experts_per_token;
    T* residual = memory.at<T>(op_.residual);
    const float* scores = memory.at<float>(op_.scores);
    if (step.rows == 1) {
      single_row(range, residual, scores, worker);
      return;
    }
    const float* parts = memory.at<float>(buffers_.expert_out);
    for (uint32_t row = range.begin; row < range.end; ++row) {
      for (uint32_t column = 0; column < sizes_.hidden; column += kBlockRows) {
        kernels_.combine(parts + uint64_t{row} * (k + 1) * sizes_.hidden + column, sizes_.hidden,
                         scores + uint64_t{row} * (k + 1), k + 1, residual + uint64_t{row} * sizes_.hidden + column);
      }
    }
  }

 private:
  void single_row(ItemRange range, T* residual, const float* scores, const Worker& worker) const {
    const uint32_t k = sizes_.experts_per_token;
    ScratchCursor scratch(worker.scratch);
    float* parts = scratch.take<float>(uint64_t{k + 1} * kBlockRows);
    const auto places = HiddenPlaces<T>::place(scratch.take<std::byte>(HiddenPlaces<T>::bytes(sizes_, 1)), sizes_, 1);
    prepare_hidden<T>(kernels_, sizes_, op_, {0, 1}, *worker.memory, places);
    const uint32_t* experts = worker.memory->at<uint32_t>(op_.experts);
    for (uint32_t block = range.begin; block < range.end; ++block) {
      for (uint32_t j = 0; j <= k; ++j) {
        const CpuWeight& weight = j < k ? *buffers_.down : *buffers_.shared_down;
        kernels_.linear({.block = weight.block(j < k ? experts[j] : 0, block),
                         .bits = weight.bits,
                         .groups = weight.groups(),
                         .x = j < k ? places.pairs : places.shared,
                         .first = j < k ? j : 0,
                         .count = 1,
                         .out = parts + uint64_t{j} * kBlockRows});
      }
      kernels_.combine(parts, kBlockRows, scores, k + 1, residual + uint64_t{block} * kBlockRows);
    }
  }

  const ActivationKernels<T>& kernels_;
  MoeSizes sizes_;
  ExpertDownCombine op_;
  ExpertBuffers buffers_;
};

}  // namespace

template <typename T>
void lower_expert_gate_up(LaunchList& launches, const KernelTable& kernels, const MoeSizes& sizes,
                          const ExpertGateUp& op, const ExpertBuffers& buffers) {
  std::vector<Access> accesses = {{op.normed, false}, {op.experts, false}, {op.hidden, true}, {op.shared_hidden, true}};
  for (const Ref ref : {buffers.groups.groups, buffers.groups.active, buffers.prepared_in}) {
    if (ref.valid()) {
      accesses.push_back({ref, false});
    }
  }
  launches.push_back(std::make_unique<ExpertGateUpLaunch<T>>(kernels, sizes, op, buffers, std::move(accesses)));
}

template <typename T>
void lower_expert_down_combine(LaunchList& launches, const KernelTable& kernels, const MoeSizes& sizes,
                               const ExpertDownCombine& op, const ExpertBuffers& buffers) {
  std::vector<Access> combine = {
      {op.hidden, false}, {op.shared_hidden, false}, {op.experts, false}, {op.scores, false}, {op.residual, true}};
  if (buffers.expert_out.valid()) {
    launches.push_back(std::make_unique<PrepareHiddenLaunch<T>>(kernels, sizes, op, buffers.prepared_hidden));
    launches.push_back(std::make_unique<ExpertDownLaunch<T>>(kernels, sizes, buffers,
                                                             std::vector<Access>{{buffers.prepared_hidden, false},
                                                                                 {buffers.groups.groups, false},
                                                                                 {buffers.groups.active, false},
                                                                                 {buffers.expert_out, true}}));
    combine.push_back({buffers.expert_out, false});
  }
  launches.push_back(std::make_unique<ExpertCombineLaunch<T>>(kernels, sizes, op, buffers, std::move(combine)));
}

template void lower_expert_gate_up<Bf16>(LaunchList&, const KernelTable&, const MoeSizes&, const ExpertGateUp&,
                                         const ExpertBuffers&);
template void lower_expert_gate_up<float>(LaunchList&, const KernelTable&, const MoeSizes&, const ExpertGateUp&,
                                          const ExpertBuffers&);
template void lower_expert_down_combine<Bf16>(LaunchList&, const KernelTable&, const MoeSizes&,
                                              const ExpertDownCombine&, const ExpertBuffers&);
template void lower_expert_down_combine<float>(LaunchList&, const KernelTable&, const MoeSizes&,
                                               const ExpertDownCombine&, const ExpertBuffers&);

}  // namespace lily::cpu
