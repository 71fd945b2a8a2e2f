#include "tests/ref/forward.h"

#include "tests/ref/linear.h"

namespace lily::ref {
namespace {

DeltaParams delta_params(const ModelShape& shape, const LinearLayer& layer, double eps) {
  return {.key_heads = shape.key_heads,
          .value_heads = shape.value_heads,
          .eps = eps,
          .conv = plain_values(layer.conv),
          .a_log = plain_values(layer.a_log),
          .dt_bias = plain_values(layer.dt_bias),
          .norm = plain_values(layer.norm)};
}

}  // namespace

Model::Model(const ModelWeights& weights, Rounding rounding)
    : weights_(weights), rounding_(rounding), eps_(static_cast<double>(weights.shape().rms_eps)) {}

Model::Sequence Model::start() const {
  Sequence sequence;
  for (const LayerWeights& layer : weights_.layers()) {
    if (layer.kind() == LayerKind::kLinear) {
      sequence.layers.emplace_back(DeltaState(delta_params(weights_.shape(), layer.linear(), eps_)));
    } else {
      sequence.layers.emplace_back(KvLists{});
    }
  }
  return sequence;
}

void Model::mix_linear(const LinearLayer& layer, const Values& gain, DeltaState& state, Values& residual) const {
  const Matrix in({&layer.in_proj_qkv, &layer.in_proj_z, &layer.in_proj_a, &layer.in_proj_b});
  const Values proj = norm_linear(in, gain, eps_, residual, rounding_);
  Values mixed = gated_delta_net(delta_params(weights_.shape(), layer, eps_), proj, state);
  round_all(mixed, rounding_);
  linear_residual(Matrix(layer.out_proj), mixed, residual, rounding_);
}

void Model::mix_attention(const AttentionLayer& layer, const Values& gain, Sequence& sequence, size_t index,
                          Values& residual) const {
  const ModelShape& shape = weights_.shape();
  const AttentionParams params{.query_heads = shape.query_heads,
                               .kv_heads = shape.kv_heads,
                               .head_dim = shape.head_dim,
                               .rotary_dim = shape.rotary_dim,
                               .theta = shape.rope_theta,
                               .eps = eps_,
                               .q_norm = plain_values(layer.q_norm),
                               .k_norm = plain_values(layer.k_norm),
                               .rounding = rounding_};
  const Matrix in({&layer.q_proj, &layer.k_proj, &layer.v_proj});
  auto& lists = std::get<KvLists>(sequence.layers[index]);
  const Values proj = norm_linear(in, gain, eps_, residual, rounding_);
  const Values query = qk_norm_rope_append(params, proj, sequence.position, lists);
  Values mixed = attention(params, query, proj, sequence.position, lists);
  round_all(mixed, rounding_);
  linear_residual(Matrix(layer.o_proj), mixed, residual, rounding_);
}

void Model::mix_experts(const LayerWeights& layer, Values& residual) const {
  const ModelShape& shape = weights_.shape();
  const MoeWeights& moe = layer.moe;
  const ExpertWeights experts{.router = Matrix({&moe.router, &moe.shared_gate}),
                              .gate_up = {&moe.expert_gate, &moe.expert_up},
                              .down = {&moe.expert_down},
                              .shared_gate_up = Matrix({&moe.shared_gate_proj, &moe.shared_up_proj}),
                              .shared_down = Matrix(moe.shared_down_proj)};
  const NormedLogits normed = norm_router(experts.router, plain_values(layer.post_norm), eps_, residual, rounding_);
  const Routing routing = router_top_k(normed.logits, shape.experts, shape.experts_per_token);
  const ExpertHidden hidden = expert_gate_up(experts, normed.normed, routing.experts, rounding_);
  expert_down_combine(experts, hidden, routing, residual, rounding_);
}

Model::Output Model::feed(Sequence& sequence, std::span<const int32_t> tokens) const {
  Output out;
  Values residual = embed_tokens(Matrix(weights_.embed()), tokens, rounding_);
  out.hidden.push_back(residual);
  for (size_t index = 0; index < weights_.layers().size(); ++index) {
    const LayerWeights& layer = weights_.layers()[index];
    const Values gain = plain_values(layer.input_norm);
    if (layer.kind() == LayerKind::kLinear) {
      mix_linear(layer.linear(), gain, std::get<DeltaState>(sequence.layers[index]), residual);
    } else {
      mix_attention(layer.attention(), gain, sequence, index, residual);
    }
    mix_experts(layer, residual);
    out.hidden.push_back(residual);
  }
  sequence.position += static_cast<uint32_t>(tokens.size());
  out.final_hidden = final_norm(residual, plain_values(weights_.final_norm()), eps_, rounding_);
  out.logits = lm_head(Matrix(weights_.lm_head()), out.final_hidden);
  return out;
}

}  // namespace lily::ref
