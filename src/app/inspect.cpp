// lily inspect: what a checkpoint holds and what running it takes, from its headers alone.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <memory>

#include "app/commands.h"
#include "app/exit_status.h"
#include "app/model_options.h"
#include "app/standard_streams.h"
#include "engine/memory_estimate.h"
#include "model/checkpoint.h"
#include "model/weights.h"
#include "plan/plan.h"
#include "plan/weight_table.h"
#include "text/json_text.h"

namespace lily {
namespace {

struct InspectOptions {
  ModelOptions model;
  uint32_t sequences = 1;
  bool tensors = false;
  bool json = false;
};

/// Everything the two outputs say.
struct Inspection {
  std::filesystem::path folder;
  std::map<uint32_t, uint64_t> weights_by_bits;  // quantised weights of the trunk
  uint64_t plain_values = 0;
  uint64_t bytes_per_token = 0;  // weights that one decode step reads
  uint32_t context = 0;
  uint32_t sequences = 1;
  ActivationType activation = ActivationType::kBf16;
  MemoryEstimate memory;
};

Inspection inspect_weights(const InspectOptions& options, const ModelWeights& weights) {
  const ModelShape& shape = weights.shape();
  Inspection out;
  out.folder = model_folder(options.model);
  const WeightTable table = weight_table(weights);
  for (const WeightView& view : table.views) {
    for (const QuantTensor* part : view.parts) {
      out.weights_by_bits[part->bits] += uint64_t{part->experts} * part->rows * part->cols;
    }
    if (view.plain != nullptr) out.plain_values += view.plain->size();
  }
  out.context = std::min(options.model.context == 0 ? kDefaultContext : options.model.context, shape.max_positions);
  out.sequences = options.sequences;
  out.activation = options.model.activations == "f32" ? ActivationType::kF32 : ActivationType::kBf16;
  const StateSizes sizes = state_sizes(out.sequences, out.context, 0);
  out.memory = estimate_memory(shape, sizes, out.activation, weights.tensor_bytes(), EngineOptions{}.max_chunk);
  const PlanOptions plan{
      .mode = PlanMode::kDecode, .max_rows = 1, .max_context = out.context, .activation = out.activation};
  out.bytes_per_token = weight_bytes_read(decode_plan(shape, sizes, plan, table), 1);
  return out;
}

ordered_json shape_json(const ModelShape& shape) {
  ordered_json kinds = ordered_json::array();
  for (const LayerKind kind : shape.layer_kinds) {
    kinds.push_back(kind == LayerKind::kLinear ? "linear_attention" : "full_attention");
  }
  return {{"layers", shape.layers()},
          {"layer_kinds", std::move(kinds)},
          {"hidden", shape.hidden},
          {"vocab", shape.vocab},
          {"max_positions", shape.max_positions},
          {"rms_eps", shortest_double(shape.rms_eps)},
          {"query_heads", shape.query_heads},
          {"kv_heads", shape.kv_heads},
          {"head_dim", shape.head_dim},
          {"rotary_dim", shape.rotary_dim},
          {"rope_theta", shortest_double(shape.rope_theta)},
          {"key_heads", shape.key_heads},
          {"value_heads", shape.value_heads},
          {"key_head_dim", shape.key_head_dim},
          {"value_head_dim", shape.value_head_dim},
          {"conv_width", shape.conv_width},
          {"experts", shape.experts},
          {"experts_per_token", shape.experts_per_token},
          {"expert_intermediate", shape.expert_intermediate},
          {"shared_intermediate", shape.shared_intermediate}};
}

template <typename T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json or_null(const std::optional<float>& value) {
  return value ? ordered_json(shortest_double(*value)) : ordered_json();
}

ordered_json generation_json(const GenerationDefaults& defaults) {
  return {{"do_sample", or_null(defaults.do_sample)},
          {"temperature", or_null(defaults.temperature)},
          {"top_k", or_null(defaults.top_k)},
          {"top_p", or_null(defaults.top_p)},
          {"min_p", or_null(defaults.min_p)},
          {"repetition_penalty", or_null(defaults.repetition_penalty)},
          {"presence_penalty", or_null(defaults.presence_penalty)}};
}

ordered_json tensors_json(const Checkpoint& checkpoint) {
  ordered_json list = ordered_json::array();
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    list.push_back({{"name", name},
                    {"dtype", dtype_name(tensor.stored->dtype)},
                    {"shape", tensor.stored->shape},
                    {"bytes", tensor.stored->data.size()},
                    {"shard", tensor.shard->name()}});
  }
  return list;
}

ordered_json memory_json(const Inspection& facts) {
  return {{"context", facts.context},
          {"sequences", facts.sequences},
          {"activations", facts.activation == ActivationType::kBf16 ? "bf16" : "f32"},
          {"weights_bytes", facts.memory.weights_bytes},
          {"kv_bytes", facts.memory.kv_bytes},
          {"state_bytes", facts.memory.state_bytes},
          {"logits_bytes", facts.memory.logits_bytes},
          {"workspace_bytes", facts.memory.workspace_bytes},
          {"total_bytes", facts.memory.total_bytes()},
          {"usable_bytes", usable_memory_bytes()}};
}

ordered_json inspection_json(const Inspection& facts, const ModelWeights& weights, const Checkpoint& checkpoint) {
  ordered_json by_bits = ordered_json::object();
  for (const auto& [bits, count] : facts.weights_by_bits) by_bits[std::to_string(bits)] = count;
  ordered_json shards = ordered_json::array();
  for (const SafetensorsFile& shard : checkpoint.shards()) {
    shards.push_back({{"file", shard.name()}, {"bytes", shard.bytes().size()}});
  }
  const ModelConfig& config = weights.config();
  ordered_json out = ordered_json::object();
  out["model"] = facts.folder.string();
  out["identity"] = weights.identity();
  out["shape"] = shape_json(config.shape);
  out["quantization"] = {{"bits", config.quantization.bits},
                         {"group_size", config.quantization.group_size},
                         {"weights_by_bits", std::move(by_bits)},
                         {"unquantized_values", facts.plain_values}};
  out["eos_ids"] = config.eos_ids;
  out["eos_token"] = or_null(config.eos_token);
  out["generation"] = generation_json(config.generation);
  out["mtp"] = weights.mtp().has_value();
  out["sizes"] = {{"tensor_bytes", weights.tensor_bytes()},
                  {"file_bytes", weights.file_bytes()},
                  {"shards", std::move(shards)},
                  {"weight_bytes_per_token", facts.bytes_per_token},
                  {"kv_bytes_per_token", config.shape.kv_bytes_per_token(activation_bytes(facts.activation))},
                  {"state_bytes_per_sequence", config.shape.recurrent_state_bytes() +
                                                   config.shape.conv_window_bytes(activation_bytes(facts.activation))}};
  out["memory"] = memory_json(facts);
  out["tensors"] = tensors_json(checkpoint);
  return out;
}

std::string inspection_text(const Inspection& facts, const ModelWeights& weights) {
  const ModelShape& s = weights.shape();
  std::string bits;
  for (const auto& [width, count] : facts.weights_by_bits) {
    bits += fmt::format("{:.1f} M at {} bits, ", static_cast<double>(count) / 1e6, width);
  }
  std::string out;
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("{:<13}{}\n", name, value);
  };
  line("model", facts.folder.string());
  line("layers", fmt::format("{}: {} gated delta net, {} attention; hidden {}, vocabulary {}, up to {} positions",
                             s.layers(), s.linear_layers(), s.attention_layers(), s.hidden, s.vocab, s.max_positions));
  line("attention", fmt::format("{} query heads and {} kv heads of {}, rotary {} (theta {:.0f})", s.query_heads,
                                s.kv_heads, s.head_dim, s.rotary_dim, s.rope_theta));
  line("delta net", fmt::format("{} key heads of {}, {} value heads of {}, convolution over {}", s.key_heads,
                                s.key_head_dim, s.value_heads, s.value_head_dim, s.conv_width));
  line("experts", fmt::format("{}, {} a token, width {}, shared expert {}", s.experts, s.experts_per_token,
                              s.expert_intermediate, s.shared_intermediate));
  line("MTP head", weights.mtp() ? "yes" : "no");
  line("weights", fmt::format("{}{:.2f} M unquantised values, groups of {}", bits,
                              static_cast<double>(facts.plain_values) / 1e6, kQuantGroup));
  line("size",
       fmt::format("{} of tensors, {} on disk; a token reads {} of weights", format_bytes(weights.tensor_bytes()),
                   format_bytes(weights.file_bytes()), format_bytes(facts.bytes_per_token)));
  const MemoryEstimate& memory = facts.memory;
  line("memory",
       fmt::format("{} for a context of {} ({} sequence{}): weights {}, KV {}, state {}, logits {}, work {}",
                   format_bytes(memory.total_bytes()), facts.context, facts.sequences, facts.sequences == 1 ? "" : "s",
                   format_bytes(memory.weights_bytes), format_bytes(memory.kv_bytes), format_bytes(memory.state_bytes),
                   format_bytes(memory.logits_bytes), format_bytes(memory.workspace_bytes)));
  line("", fmt::format("of {} that this machine has", format_bytes(usable_memory_bytes())));
  line("identity", weights.identity());
  return out;
}

int inspect(const InspectOptions& options) {
  const std::filesystem::path folder = model_folder(options.model);
  const ModelWeights weights = load_weights(folder);
  const Inspection facts = inspect_weights(options, weights);
  if (options.json) {
    write_output(compact_json(inspection_json(facts, weights, Checkpoint(folder))) + "\n");
    return kExitDone;
  }
  std::string text = inspection_text(facts, weights);
  if (options.tensors) {
    const Checkpoint checkpoint(folder);
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      text +=
          fmt::format("{:<5} {:<16} {}\n", dtype_name(tensor.stored->dtype), shape_text(tensor.stored->shape), name);
    }
  }
  write_output(text);
  return kExitDone;
}

}  // namespace

void add_inspect(CLI::App& root, Action& action) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = root.add_subcommand("inspect", "Show what a model holds and what it takes to run it");
  add_model_folder(*command, options->model);
  command->add_option("--ctx", options->model.context, "Context of the memory plan")->check(CLI::Range(1U, 1U << 30));
  command->add_option("--sequences", options->sequences, "Sequences of the memory plan")->check(CLI::Range(1U, 1024U));
  command->add_option("--activations", options->model.activations, "Number type of activations")
      ->check(CLI::IsMember({"bf16", "f32"}));
  command->add_flag("--tensors", options->tensors, "List the tensors");
  command->add_flag("--json", options->json, "One JSON object on standard output, tensors included");
  command->callback([options, &action] { action = [options] { return inspect(*options); }; });
}

}  // namespace lily
