// The whole model in double: the reference ops in the order of the forward plans, over the weights of a checkpoint.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "model/weights.h"
#include "tests/ref/attention.h"
#include "tests/ref/experts.h"
#include "tests/ref/gated_delta_net.h"
#include "tests/ref/values.h"

namespace lily::ref {

/// Runs a model row by row or in any chunks; slow, for small checkpoints.
class Model {
 public:
  /// Keeps a reference to the weights.
  Model(const ModelWeights& weights, Rounding rounding);

  /// What a sequence carries, one entry a layer.
  struct Sequence {
    uint32_t position = 0;
    std::vector<std::variant<DeltaState, KvLists>> layers;
  };
  Sequence start() const;

  struct Output {
    std::vector<Values> hidden;  // [layers + 1][rows, hidden]: the embedding, then the residual after each layer
    Values final_hidden;         // [rows, hidden], after the final norm
    Values logits;               // [rows, vocab]
  };
  /// Feeds rows to a sequence. Ids must lie in the vocabulary.
  Output feed(Sequence& sequence, std::span<const int32_t> tokens) const;

 private:
  void mix_linear(const LinearLayer& layer, const Values& gain, DeltaState& state, Values& residual) const;
  void mix_attention(const AttentionLayer& layer, const Values& gain, Sequence& sequence, size_t index,
                     Values& residual) const;
  void mix_experts(const LayerWeights& layer, Values& residual) const;

  const ModelWeights& weights_;
  Rounding rounding_;
  double eps_;
};

}  // namespace lily::ref
