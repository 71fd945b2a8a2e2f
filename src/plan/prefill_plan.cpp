// One prefill chunk of the model, as ops: many rows of few sequences. It differs from decode where many rows pay for
// grouping: rows are grouped by expert on the device, so each expert's weights are read once and no id visits the host.

#include "plan/blocks.h"
#include "plan/plan.h"

namespace lily {

Plan prefill_plan(const ModelShape& shape, const StateSizes& sizes, const PlanOptions& options,
                  const WeightTable& weights) {
  PlanBuilder builder("prefill", shape, sizes, options, weights);
  const ForwardBuffers buffers = declare_forward(builder);

  builder.plan().add(EmbedTokens{.table = weights.embed, .mailbox = buffers.mailbox, .out = buffers.residual});
  for (uint32_t layer = 0; layer < shape.layers(); ++layer) {
    add_capture(builder, buffers, layer);
    add_layer(builder, buffers, layer, ExpertRouting::kGrouped);
  }
  add_capture(builder, buffers, shape.layers());
  add_head(builder, buffers);
  return builder.take();
}

}  // namespace lily
