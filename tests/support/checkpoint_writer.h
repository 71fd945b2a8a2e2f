// Makes MLX-layout checkpoints with random weights of any shape, streamed to disk: small ones for tests to break,
// layers of the 35B shape for benchmarks. Values are realistic (weights ~ N(0, 1/K), norms near 1, decays as at
// initialisation) and depend on the seed and the tensor's canonical name only, so two folders with one seed hold the
// same weights whatever their layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "model/shape.h"

namespace lily::test {

enum class NamePrefix {
  kLanguageModel,  // language_model.model.layers…, language_model.lm_head
  kModel,          // model.layers…, lm_head
};

struct CheckpointOptions {
  ModelShape shape;
  uint64_t seed = 1;
  uint32_t bits = 4;                                 // of every matrix but the two gates
  uint32_t gate_bits = 8;                            // router and shared expert gate
  std::map<std::string, uint32_t> module_bits = {};  // by canonical module name; beats the two above
  uint32_t shards = 1;   // with more than one, every cut falls inside a weight/scales/biases triple
  bool odd_data = true;  // data sections begin at odd file offsets, as MLX writes them
  NamePrefix prefix = NamePrefix::kLanguageModel;
  bool original_layout = false;  // conv [C, 1, 4] and norms minus one
  bool f32_decay = false;        // A_log and the GDN norm in F32
  bool mtp = false;
  bool vision = false;  // a few vision tensors, to be skipped
};

/// The smallest shape that has every part: 4 layers (3 linear, 1 attention), hidden 128, 8 experts top-2, vocabulary
/// 320.
ModelShape tiny_shape();
/// The 35B model's widths with `layers` layers, every fourth of them attention.
ModelShape shape_35b(uint32_t layers);

/// Writes config.json, generation_config.json, the shards and their index into `folder`, which is made when it is not
/// there.
void write_checkpoint(const std::filesystem::path& folder, const CheckpointOptions& options);

}  // namespace lily::test
