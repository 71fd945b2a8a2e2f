// Every effective weight of a model by canonical name, for tests that compare whole models.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/weights.h"

namespace lily::test {

/// What a model multiplies by: raw bytes of quantised triples, effective values of plain tensors. The MTP head only
/// when asked for.
struct WeightContents {
  std::map<std::string, std::vector<std::byte>> quantised;
  std::map<std::string, std::vector<float>> plain;
  bool operator==(const WeightContents&) const = default;
};

WeightContents contents_of(const ModelWeights& weights, bool with_mtp);

}  // namespace lily::test
