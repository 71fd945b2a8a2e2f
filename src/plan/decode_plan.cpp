// START READING HERE: one decode step of the model, as ops.
//
// A row is one token of one sequence. The step's runs say which sequence, state slot and position each row belongs to;
// the token itself may still be on the device, in the mailbox slot where the sampling program of the step before left
// it.

#include "plan/blocks.h"
#include "plan/plan.h"
#include "plan/step.h"

namespace lily {

Plan decode_plan(const ModelShape& shape, const StateSizes& sizes, const PlanOptions& options,
                 const WeightTable& weights) {
  PlanBuilder builder("decode", shape, sizes, options, weights);
  const ForwardBuffers buffers = declare_forward(builder);

  builder.plan().add(EmbedTokens{.table = weights.embed, .mailbox = buffers.mailbox, .out = buffers.residual});
  for (uint32_t layer = 0; layer < shape.layers(); ++layer) {
    add_capture(builder, buffers, layer);
    add_layer(builder, buffers, layer, ExpertRouting::kDirect);
  }
  add_capture(builder, buffers, shape.layers());
  add_head(builder, buffers);
  return builder.take();
}

Plan sample_plan(const ModelShape& shape, const StateSizes& sizes, const PlanOptions& options,
                 const WeightTable& weights) {
  PlanBuilder builder("sample", shape, sizes, options, weights);
  const Ref logits = builder.state("logits", uint64_t{sizes.max_logit_rows} * shape.vocab * sizeof(float));
  const Ref mailbox = builder.state("mailbox", uint64_t{sizes.sequences} * sizeof(int32_t));
  const Ref counts = builder.state("token_counts", uint64_t{sizes.sequences} * shape.vocab * sizeof(uint32_t));
  const Ref samples = builder.state("samples", uint64_t{kStepRing} * sizes.max_logit_rows * sizeof(SampleResult));
  builder.plan().add(Sample{.logits = logits, .token_counts = counts, .mailbox = mailbox, .samples = samples});
  return builder.take();
}

}  // namespace lily
