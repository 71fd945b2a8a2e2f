// The sampling program alone, with logits, counts, mailbox and results that a test writes and reads.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/ops/op_rig.h"

namespace lily::ops {

class SampleRig {
 public:
  /// Room for `rows` logit rows and as many sequences. Counts start at zero.
  SampleRig(Backend& backend, const ModelShape& shape, uint32_t rows);

  void write_logits(uint32_t row, const std::vector<float>& logits);
  void write_counts(uint32_t sequence, const std::vector<uint32_t>& counts);
  std::vector<uint32_t> counts(uint32_t sequence);
  int32_t mailbox(uint32_t sequence);
  /// Results in the order of the samples.
  std::vector<SampleResult> run(const std::vector<SampleParams>& samples, uint32_t ring = 0);
  std::vector<SampleResult> results(uint32_t ring, uint32_t count);

 private:
  uint32_t rows_;
  uint32_t vocab_;
  OpRig rig_;
};

/// Plain sampling of logit row `row` into slot `row`.
SampleParams sample_params(const ModelShape& shape, float temperature, uint32_t row = 0);

/// Normal logits, floats.
std::vector<float> random_logits(uint32_t vocab, double scale, uint32_t seed);

}  // namespace lily::ops
