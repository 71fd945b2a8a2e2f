// The weights as the plan sees them: stacks of quantised matrices and plain vectors, each adopted once by the backend.
// Rows that one kernel reads together (qkv|z|a|b, q|k|v, gate|up, router|shared gate) are one stack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/weights.h"
#include "plan/op.h"

namespace lily {

/// One thing to adopt. Quantised: `parts` are stacked by rows inside every expert. Plain: `plain` alone.
struct WeightView {
  std::string name;
  std::vector<const QuantTensor*> parts;  // equal experts and cols; bits may differ
  const PlainTensor* plain = nullptr;
  uint32_t experts = 1;
  uint32_t rows = 0;   // of one expert, all parts; for a plain tensor its element count
  uint32_t cols = 0;   // 1 for a plain tensor
  uint64_t bytes = 0;  // as stored in the checkpoint: codes, scales and biases
};

/// The table entries of one layer; those of the other mixer kind stay none.
struct LayerWeightIds {
  Weight input_norm, post_norm;
  Weight mixer_in, mixer_out;               // [N, H] stack, [H, K]
  Weight conv, a_log, dt_bias, gated_norm;  // Gated DeltaNet
  Weight q_norm, k_norm;                    // attention
  Weight router, gate_up, shared_gate_up, down, shared_down;
};

/// All weights of a model in adoption order, and where each one is used. Refers to the ModelWeights it was made from.
struct WeightTable {
  std::vector<WeightView> views;
  Weight embed, final_norm, lm_head;
  std::vector<LayerWeightIds> layers;

  const WeightView& view(Weight weight) const { return views.at(weight.index); }
};

/// Builds the table; nothing is copied.
WeightTable weight_table(const ModelWeights& weights);

}  // namespace lily
