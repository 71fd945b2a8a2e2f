#include "tests/ops/sample_rig.h"

#include <cstring>

#include "tests/ops/synthetic.h"

namespace lily::ops {
namespace {

StateSizes sample_sizes(uint32_t rows) {
  StateSizes sizes = op_sizes();
  sizes.sequences = rows;
  sizes.max_logit_rows = rows;
  return sizes;
}

PlanOptions sample_options(uint32_t rows) {
  PlanOptions options;
  options.max_rows = rows;
  options.max_context = 4096;
  return options;
}

}  // namespace

SampleRig::SampleRig(Backend& backend, const ModelShape& shape, uint32_t rows)
    : rows_(rows), vocab_(shape.vocab), rig_(backend, shape, sample_sizes(rows), sample_options(rows)) {
  const Ref logits = rig_.buffer("logits", ElementType::kF32, uint64_t{rows} * vocab_);
  const Ref counts = rig_.buffer("token_counts", ElementType::kU32, uint64_t{rows} * vocab_);
  const Ref mailbox = rig_.buffer("mailbox", ElementType::kU32, rows);
  const Ref samples = rig_.buffer("samples", ElementType::kU32, uint64_t{kStepRing} * rows * sizeof(SampleResult) / 4);
  rig_.add(Sample{.logits = logits, .token_counts = counts, .mailbox = mailbox, .samples = samples});
  rig_.compile();
  rig_.write("token_counts", Values(uint64_t{rows} * vocab_, 0.0));
}

void SampleRig::write_logits(uint32_t row, const std::vector<float>& logits) {
  rig_.write_bytes("logits", std::as_bytes(std::span(logits)), uint64_t{row} * vocab_ * sizeof(float));
}

void SampleRig::write_counts(uint32_t sequence, const std::vector<uint32_t>& counts) {
  rig_.write_bytes("token_counts", std::as_bytes(std::span(counts)), uint64_t{sequence} * vocab_ * sizeof(uint32_t));
}

std::vector<uint32_t> SampleRig::counts(uint32_t sequence) {
  const Bytes bytes = rig_.read("token_counts", uint64_t{sequence} * vocab_, vocab_);
  std::vector<uint32_t> out(vocab_);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

int32_t SampleRig::mailbox(uint32_t sequence) {
  const Bytes bytes = rig_.read("mailbox", sequence, 1);
  int32_t token = 0;
  std::memcpy(&token, bytes.data(), sizeof(token));
  return token;
}

std::vector<SampleResult> SampleRig::run(const std::vector<SampleParams>& samples, uint32_t ring) {
  const auto count = static_cast<uint32_t>(samples.size());
  Step step;
  for (uint32_t row = 0; row < count; ++row) {
    Run run;
    run.sequence = row;
    run.first_row = row;
    run.rows = 1;
    run.logit_rows = 1;
    step.runs.push_back(run);
  }
  step.tokens.assign(count, 0);
  step.samples = samples;
  step.ring = ring;
  rig_.poison("samples");
  rig_.run(step);
  return results(ring, count);
}

std::vector<SampleResult> SampleRig::results(uint32_t ring, uint32_t count) {
  const Bytes bytes =
      rig_.read_bytes("samples", uint64_t{ring} * rows_ * sizeof(SampleResult), count * sizeof(SampleResult));
  std::vector<SampleResult> out(count);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

SampleParams sample_params(const ModelShape& shape, float temperature, uint32_t row) {
  SampleParams params;
  params.sequence = row;
  params.logit_row = row;
  params.temperature = temperature;
  params.vocabulary = shape.vocab;
  return params;
}

std::vector<float> random_logits(uint32_t vocab, double scale, uint32_t seed) {
  const Values values = random_values(vocab, scale, seed);
  return {values.begin(), values.end()};
}

}  // namespace lily::ops
