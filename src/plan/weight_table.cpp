#include "plan/weight_table.h"

#include <initializer_list>
#include <utility>

#include "base/error.h"

namespace lily {
namespace {

class TableBuilder {
 public:
  explicit TableBuilder(WeightTable& table) : table_(table) {}

  Weight stack(std::string name, std::initializer_list<const QuantTensor*> parts) {
    WeightView view{.name = std::move(name), .parts = parts, .plain = nullptr};
    const QuantTensor& first = *view.parts.front();
    view.experts = first.experts;
    view.cols = first.cols;
    for (const QuantTensor* part : view.parts) {
      LILY_CHECK(part->experts == first.experts && part->cols == first.cols, "{}: parts of a stack differ in shape",
                 view.name);
      view.rows += part->rows;
      view.bytes += part->bytes();
    }
    return push(std::move(view));
  }

  Weight plain(const PlainTensor& tensor) {
    return push({.name = tensor.name,
                 .parts = {},
                 .plain = &tensor,
                 .rows = static_cast<uint32_t>(tensor.size()),
                 .cols = 1,
                 .bytes = tensor.bytes()});
  }

 private:
  Weight push(WeightView view) {
    table_.views.push_back(std::move(view));
    return {static_cast<uint32_t>(table_.views.size() - 1)};
  }
  WeightTable& table_;
};

}  // namespace

WeightTable weight_table(const ModelWeights& weights) {
  WeightTable table;
  TableBuilder add(table);
  table.embed = add.stack("embed_tokens", {&weights.embed()});
  for (size_t index = 0; index < weights.layers().size(); ++index) {
    const LayerWeights& layer = weights.layers()[index];
    const auto named = [index](const char* part) { return fmt::format("layer {} {}", index, part); };
    LayerWeightIds ids;
    ids.input_norm = add.plain(layer.input_norm);
    if (layer.kind() == LayerKind::kLinear) {
      const LinearLayer& mixer = layer.linear();
      ids.mixer_in =
          add.stack(named("in_proj"), {&mixer.in_proj_qkv, &mixer.in_proj_z, &mixer.in_proj_a, &mixer.in_proj_b});
      ids.conv = add.plain(mixer.conv);
      ids.a_log = add.plain(mixer.a_log);
      ids.dt_bias = add.plain(mixer.dt_bias);
      ids.gated_norm = add.plain(mixer.norm);
      ids.mixer_out = add.stack(named("out_proj"), {&mixer.out_proj});
    } else {
      const AttentionLayer& mixer = layer.attention();
      ids.mixer_in = add.stack(named("qkv_proj"), {&mixer.q_proj, &mixer.k_proj, &mixer.v_proj});
      ids.q_norm = add.plain(mixer.q_norm);
      ids.k_norm = add.plain(mixer.k_norm);
      ids.mixer_out = add.stack(named("o_proj"), {&mixer.o_proj});
    }
    const MoeWeights& moe = layer.moe;
    ids.post_norm = add.plain(layer.post_norm);
    ids.router = add.stack(named("router"), {&moe.router, &moe.shared_gate});
    ids.gate_up = add.stack(named("experts gate_up"), {&moe.expert_gate, &moe.expert_up});
    ids.shared_gate_up = add.stack(named("shared gate_up"), {&moe.shared_gate_proj, &moe.shared_up_proj});
    ids.down = add.stack(named("experts down"), {&moe.expert_down});
    ids.shared_down = add.stack(named("shared down"), {&moe.shared_down_proj});
    table.layers.push_back(ids);
  }
  table.final_norm = add.plain(weights.final_norm());
  table.lm_head = add.stack("lm_head", {&weights.lm_head()});
  return table;
}

}  // namespace lily
