#include "tests/unit/model/weights_contents.h"

namespace lily::test {
namespace {

void add(WeightContents& to, const QuantTensor& tensor) {
  std::vector<std::byte>& bytes = to.quantised[tensor.name];
  for (uint32_t i = 0; i < tensor.experts; ++i) {
    const QuantView view = tensor.expert(i);
    bytes.insert(bytes.end(), view.codes, view.codes + view.code_bytes());
    bytes.insert(bytes.end(), view.scales, view.scales + view.scale_bytes());
    bytes.insert(bytes.end(), view.biases, view.biases + view.scale_bytes());
  }
}

void add(WeightContents& to, const PlainTensor& tensor) {
  to.plain[tensor.name] = tensor.values();
}

template <typename... Tensors>
void add_all(WeightContents& to, const Tensors&... tensors) {
  (add(to, tensors), ...);
}

void add_layer(WeightContents& to, const LayerWeights& layer) {
  add_all(to, layer.input_norm, layer.post_norm);
  if (layer.kind() == LayerKind::kLinear) {
    const LinearLayer& mixer = layer.linear();
    add_all(to, mixer.in_proj_qkv, mixer.in_proj_z, mixer.in_proj_a, mixer.in_proj_b, mixer.out_proj, mixer.conv,
            mixer.a_log, mixer.dt_bias, mixer.norm);
  } else {
    const AttentionLayer& mixer = layer.attention();
    add_all(to, mixer.q_proj, mixer.k_proj, mixer.v_proj, mixer.o_proj, mixer.q_norm, mixer.k_norm);
  }
  const MoeWeights& moe = layer.moe;
  add_all(to, moe.router, moe.expert_gate, moe.expert_up, moe.expert_down, moe.shared_gate, moe.shared_gate_proj,
          moe.shared_up_proj, moe.shared_down_proj);
}

}  // namespace

WeightContents contents_of(const ModelWeights& weights, bool with_mtp) {
  WeightContents contents;
  add_all(contents, weights.embed(), weights.lm_head(), weights.final_norm());
  for (const LayerWeights& layer : weights.layers()) {
    add_layer(contents, layer);
  }
  if (with_mtp && weights.mtp()) {
    const MtpWeights& mtp = *weights.mtp();
    add_all(contents, mtp.fc, mtp.embedding_norm, mtp.hidden_norm, mtp.final_norm);
    add_layer(contents, mtp.layer);
  }
  return contents;
}

}  // namespace lily::test
