#include "plan/blocks.h"

#include "plan/step.h"

namespace lily {
namespace {

/// Layers of this kind before `layer`: the index of its state or KV slice.
uint32_t ordinal(const ModelShape& shape, uint32_t layer) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < layer; ++i) {
    count += shape.layer_kinds[i] == shape.layer_kinds[layer] ? 1U : 0U;
  }
  return count;
}

Ref slice(Ref whole, uint32_t index, uint32_t count) {
  const uint64_t bytes = whole.bytes / count;
  return {whole.buffer, whole.offset + bytes * index, bytes};
}

void add_linear_mixer(PlanBuilder& builder, const ForwardBuffers& buffers, uint32_t layer) {
  Plan& plan = builder.plan();
  const ModelShape& shape = plan.shape;
  const LayerWeightIds& w = plan.weight_table->layers[layer];
  const uint64_t rows = plan.options.max_rows;
  const uint64_t act = activation_bytes(plan.options.activation);
  const uint32_t index = ordinal(shape, layer);

  const Ref proj =
      builder.temp("gdn_proj", rows * plan.weight_table->view(w.mixer_in).rows * act);  // [rows, qkv | z | a | b] act
  const Ref mixed = builder.temp("gdn_out", rows * shape.value_dim() * act);            // [rows, value dim] act
  plan.add(NormLinear{.x = buffers.residual, .gain = w.input_norm, .weight = w.mixer_in, .out = proj});
  plan.add(GatedDeltaNet{.proj = proj,
                         .conv = w.conv,
                         .a_log = w.a_log,
                         .dt_bias = w.dt_bias,
                         .norm = w.gated_norm,
                         .state = slice(buffers.state, index, shape.linear_layers()),
                         .window = slice(buffers.window, index, shape.linear_layers()),
                         .out = mixed});
  plan.add(LinearResidual{.weight = w.mixer_out, .x = mixed, .residual = buffers.residual});
}

void add_attention_mixer(PlanBuilder& builder, const ForwardBuffers& buffers, uint32_t layer) {
  Plan& plan = builder.plan();
  const ModelShape& shape = plan.shape;
  const LayerWeightIds& w = plan.weight_table->layers[layer];
  const uint64_t rows = plan.options.max_rows;
  const uint64_t act = activation_bytes(plan.options.activation);
  const uint32_t index = ordinal(shape, layer);
  const Ref keys = slice(buffers.keys, index, shape.attention_layers());
  const Ref values = slice(buffers.values, index, shape.attention_layers());

  const Ref proj = builder.temp("attention_proj",
                                rows * plan.weight_table->view(w.mixer_in).rows * act);  // [rows, q+gate | k | v] act
  const Ref query = builder.temp("query", rows * shape.query_dim() * act);               // [rows, query dim] act
  const Ref mixed = builder.temp("attention_out", rows * shape.query_dim() * act);       // [rows, query dim] act
  plan.add(NormLinear{.x = buffers.residual, .gain = w.input_norm, .weight = w.mixer_in, .out = proj});
  plan.add(QkNormRopeAppend{.proj = proj,
                            .q_norm = w.q_norm,
                            .k_norm = w.k_norm,
                            .query = query,
                            .keys = keys,
                            .values = values,
                            .block_table = buffers.block_table});
  plan.add(Attention{
      .query = query, .proj = proj, .keys = keys, .values = values, .block_table = buffers.block_table, .out = mixed});
  plan.add(LinearResidual{.weight = w.mixer_out, .x = mixed, .residual = buffers.residual});
}

void add_moe(PlanBuilder& builder, const ForwardBuffers& buffers, uint32_t layer, ExpertRouting routing) {
  Plan& plan = builder.plan();
  const ModelShape& shape = plan.shape;
  const LayerWeightIds& w = plan.weight_table->layers[layer];
  const uint64_t rows = plan.options.max_rows;
  const uint64_t act = activation_bytes(plan.options.activation);
  const uint64_t pairs = rows * shape.experts_per_token;

  const Ref normed = builder.temp("normed", rows * shape.hidden * act);                             // [rows, H] act
  const Ref logits = builder.temp("router_logits", rows * (shape.experts + 1) * sizeof(float));     // [rows, E + 1] f32
  const Ref experts = builder.temp("experts", pairs * sizeof(uint32_t));                            // [rows, k] u32
  const Ref scores = builder.temp("scores", rows * (shape.experts_per_token + 1) * sizeof(float));  // [rows, k + 1] f32
  const Ref hidden = builder.temp("expert_hidden", pairs * shape.expert_intermediate * act);  // [rows · k, I] act
  const Ref shared_hidden = builder.temp("shared_hidden", rows * shape.shared_intermediate * act);  // [rows, Is] act
  Ref groups;

  plan.add(NormRouter{
      .residual = buffers.residual, .gain = w.post_norm, .router = w.router, .normed = normed, .logits = logits});
  plan.add(RouterTopK{.logits = logits, .experts = experts, .scores = scores});
  if (routing == ExpertRouting::kGrouped) {
    groups = builder.temp("expert_groups",
                          (shape.experts + 1 + pairs) * sizeof(uint32_t));  // [E + 1] offsets, [rows · k] pairs, u32
    plan.add(ExpertGroup{.experts = experts, .groups = groups});
  }
  plan.add(ExpertGateUp{.normed = normed,
                        .experts = experts,
                        .groups = groups,
                        .gate_up = w.gate_up,
                        .shared_gate_up = w.shared_gate_up,
                        .hidden = hidden,
                        .shared_hidden = shared_hidden});
  plan.add(ExpertDownCombine{.down = w.down,
                             .shared_down = w.shared_down,
                             .hidden = hidden,
                             .shared_hidden = shared_hidden,
                             .experts = experts,
                             .groups = groups,
                             .scores = scores,
                             .residual = buffers.residual});
}

}  // namespace

ForwardBuffers declare_forward(PlanBuilder& builder) {
  const Plan& plan = builder.plan();
  const ModelShape& shape = plan.shape;
  const StateSizes& sizes = plan.sizes;
  const uint64_t act = activation_bytes(plan.options.activation);
  const uint64_t block_bytes = uint64_t{kKvBlockTokens} * shape.kv_dim() * act;
  ForwardBuffers buffers;
  buffers.mailbox = builder.state("mailbox", uint64_t{sizes.sequences} * sizeof(int32_t));
  buffers.block_table =
      builder.state("block_table", uint64_t{sizes.sequences} * sizes.blocks_a_sequence * sizeof(uint32_t));
  buffers.keys = builder.state("keys", uint64_t{shape.attention_layers()} * sizes.kv_blocks * block_bytes);
  buffers.values = builder.state("values", uint64_t{shape.attention_layers()} * sizes.kv_blocks * block_bytes);
  buffers.state = builder.state("recurrent_state", uint64_t{sizes.state_slots} * shape.recurrent_state_bytes());
  buffers.window =
      builder.state("conv_window", uint64_t{sizes.state_slots} * shape.conv_window_bytes(static_cast<uint32_t>(act)));
  buffers.logits = builder.state("logits", uint64_t{sizes.max_logit_rows} * shape.vocab * sizeof(float));
  if (plan.options.capture_hidden) {
    buffers.hidden = builder.state("hidden", uint64_t{shape.layers() + 1} * plan.options.max_rows * shape.hidden * act);
  }
  buffers.residual = builder.temp("residual", plan.options.max_rows * uint64_t{shape.hidden} * act);
  return buffers;
}

void add_capture(PlanBuilder& builder, const ForwardBuffers& buffers, uint32_t index) {
  Plan& plan = builder.plan();
  if (plan.options.capture_hidden) {
    plan.add(CaptureHidden{.residual = buffers.residual, .out = slice(buffers.hidden, index, plan.shape.layers() + 1)});
  }
}

void add_layer(PlanBuilder& builder, const ForwardBuffers& buffers, uint32_t layer, ExpertRouting routing) {
  if (builder.plan().shape.layer_kinds[layer] == LayerKind::kLinear) {
    add_linear_mixer(builder, buffers, layer);
  } else {
    add_attention_mixer(builder, buffers, layer);
  }
  add_moe(builder, buffers, layer, routing);
}

void add_head(PlanBuilder& builder, const ForwardBuffers& buffers) {
  Plan& plan = builder.plan();
  const uint64_t rows = plan.sizes.max_logit_rows;
  const Ref normed = builder.temp(
      "final_normed", rows * plan.shape.hidden * activation_bytes(plan.options.activation));  // [logit rows, H] act
  plan.add(FinalNorm{.residual = buffers.residual, .gain = plan.weight_table->final_norm, .out = normed});
  plan.add(LmHead{.weight = plan.weight_table->lm_head, .x = normed, .logits = buffers.logits});
}

}  // namespace lily
