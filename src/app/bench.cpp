// lily bench: prefill and decode speed under the contract of bench/contract.md, and what limits decode.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "app/bandwidth_probe.h"
#include "app/bench_runs.h"
#include "app/build_info.h"
#include "app/commands.h"
#include "app/exit_status.h"
#include "app/model_options.h"
#include "app/standard_streams.h"
#include "app/terminal.h"
#include "engine/engine.h"
#include "engine/memory_estimate.h"
#include "model/weights.h"
#include "plan/plan.h"
#include "plan/weight_table.h"

namespace lily {
namespace {

constexpr uint32_t kMaxSteps = 1U << 20;

struct BenchOptions {
  ModelOptions model;
  std::vector<uint32_t> prompt_tokens = {512};
  uint32_t decode_steps = 64;
  uint32_t repeat = 5;
  bool json = false;
};

/// Bytes that one decode step has to read, by what they are.
struct StepBytes {
  uint64_t weights = 0;
  uint64_t kv_per_token = 0;
  uint64_t state = 0;

  /// With the context in the middle of a run.
  uint64_t total(const BenchPoint& point) const {
    return weights + kv_per_token * (point.prompt_tokens + point.decode_steps / 2) + state;
  }
};

StepBytes step_bytes(const BenchOptions& options, uint32_t context) {
  const ModelWeights weights = load_weights(model_folder(options.model));
  const ModelShape& shape = weights.shape();
  const ActivationType activation = options.model.activations == "f32" ? ActivationType::kF32 : ActivationType::kBf16;
  const WeightTable table = weight_table(weights);
  const PlanOptions plan{.mode = PlanMode::kDecode, .max_rows = 1, .max_context = context, .activation = activation};
  return {.weights = weight_bytes_read(decode_plan(shape, state_sizes(1, context, 0), plan, table), 1),
          .kv_per_token = shape.kv_bytes_per_token(activation_bytes(activation)),
          .state = shape.recurrent_state_bytes()};
}

/// Half a gigabyte is beyond every cache; less where memory is short.
BandwidthProbe probe_machine(uint32_t threads) {
  constexpr uint64_t kProbeBytes = uint64_t{512} << 20;
  return probe_bandwidth(threads, std::min(kProbeBytes, usable_memory_bytes() / 16));
}

struct Limits {
  uint64_t bytes_per_token = 0;
  double gb_per_second = 0;  // that decode read
  double share = 0;          // of the probe
};

Limits limits_of(const BenchPoint& point, const StepBytes& bytes, const BandwidthProbe& probe) {
  Limits limits;
  limits.bytes_per_token = bytes.total(point);
  const double seconds = point.median_decode().decode_seconds;
  if (seconds > 0) {
    limits.gb_per_second = static_cast<double>(limits.bytes_per_token) * point.decode_steps / seconds / 1e9;
  }
  if (probe.gb_per_second > 0) limits.share = limits.gb_per_second / probe.gb_per_second;
  return limits;
}

std::string point_text(const BenchPoint& point, const Limits& limits, const BandwidthProbe& probe) {
  const BenchRun& prefill = point.median_prefill();
  const BenchRun& decode = point.median_decode();
  std::string out = fmt::format("{:>7} {:>12.1f} {:>12.2f} {:>14.1f} {:>11.2f}  0x{:016x}\n", point.prompt_tokens,
                                point.prompt_tokens / prefill.prefill_seconds,
                                point.decode_steps / decode.decode_seconds, prefill.prefill_seconds * 1000,
                                decode.decode_seconds * 1000 / point.decode_steps, token_digest(decode.decode_ids));
  const char* verdict = limits.share > 1.0    ? "the weights come from caches"
                        : limits.share >= 0.7 ? "memory bandwidth limits it"
                                              : "not memory bandwidth, but computing or waiting, limits it";
  out += fmt::format(
      "        decode reads {} a token: {:.1f} GB/s, {:.0f} % of the {:.1f} GB/s read by the probe; {}\n",
      format_bytes(limits.bytes_per_token), limits.gb_per_second, limits.share * 100, probe.gb_per_second, verdict);
  return out;
}

ordered_json meta_json(const BenchOptions& options, Engine& engine) {
  return {{"program", "lily"},
          {"version", version_number()},
          {"commit", build_commit()},
          {"backend", engine.backend().name()},
          {"device", engine.backend().description()},
          {"model", model_folder(options.model).string()},
          {"activations", options.model.activations},
          {"context", engine.context_limit()},
          {"load_ms", engine.load_ms()},
          {"repeat", options.repeat}};
}

ordered_json measured_json(const BenchPoint& point, const Limits& limits, uint32_t depth) {
  ordered_json out = point_json(point, depth);
  out["limits"] = {{"bytes_per_token", limits.bytes_per_token},
                   {"gb_per_second", limits.gb_per_second},
                   {"share_of_probe", limits.share}};
  return out;
}

ordered_json bench_json(const ordered_json& meta, const BandwidthProbe& probe, ordered_json points) {
  ordered_json out = ordered_json::object();
  out["schema_version"] = 1;
  out["meta"] = meta;
  out["probe"] = {
      {"gb_per_second", probe.gb_per_second}, {"buffer_bytes", probe.buffer_bytes}, {"threads", probe.threads}};
  if (points.size() == 1) {
    for (const auto& [key, value] : points[0].items()) out[key] = value;
  } else {
    out["points"] = std::move(points);
  }
  return out;
}

int bench(const BenchOptions& options) {
  const uint32_t longest = *std::max_element(options.prompt_tokens.begin(), options.prompt_tokens.end());
  const uint32_t needed = longest + options.decode_steps + 2;
  const uint32_t limit = load_config(model_folder(options.model)).shape.max_positions;
  const uint32_t context = std::min(options.model.context != 0 ? options.model.context : needed, limit);
  if (needed > context) {
    throw Error(ErrorCode::kUsage, "{} prompt tokens and {} decode steps need a context of {}, but it holds {}",
                longest, options.decode_steps, needed, context);
  }
  const StepBytes bytes = step_bytes(options, context);
  const BandwidthProbe probe = probe_machine(options.model.backend.threads);
  const std::unique_ptr<Engine> engine =
      load_engine(options.model, {.context = context, .quiet = options.json, .text = false});
  if (!options.json) {
    write_output(fmt::format("{}\n{:>7} {:>12} {:>12} {:>14} {:>11}  {}\n", engine->backend().description(), "prompt",
                             "prefill t/s", "decode t/s", "first token ms", "ms a token", "digest"));
  }
  ordered_json points = ordered_json::array();
  for (const uint32_t length : options.prompt_tokens) {
    Progress progress(fmt::format("prompt of {} tokens:", length));
    const BenchPoint point = measure_point(*engine, length, options.decode_steps, options.repeat, [&](uint32_t run) {
      progress.update(run, options.repeat + 1, run == 0 ? "warm-up" : fmt::format("run {} of {}", run, options.repeat));
    });
    progress.clear();
    const Limits limits = limits_of(point, bytes, probe);
    points.push_back(measured_json(point, limits, engine->backend().depth()));
    if (!options.json) write_output(point_text(point, limits, probe));
  }
  if (options.json)
    write_output(compact_json(bench_json(meta_json(options, *engine), probe, std::move(points))) + "\n");
  return kExitDone;
}

}  // namespace

void add_bench(CLI::App& root, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = root.add_subcommand("bench", "Measure prefill and decode speed");
  add_model_options(*command, options->model);
  command->add_option("--prompt-tokens", options->prompt_tokens, "Prompt lengths: 256,1024 (default: 512)")
      ->delimiter(',')
      ->check(CLI::Range(1U, 1U << 24));
  command->add_option("--decode-steps", options->decode_steps, "Decode steps of a run (default: 64)")
      ->check(CLI::Range(1U, kMaxSteps));
  command->add_option("--repeat", options->repeat, "Runs of each prompt; medians are shown (default: 5)")
      ->check(CLI::Range(1U, 1000U));
  command->add_flag("--json", options->json, "One JSON object on standard output");
  command->footer(
      "The figures follow bench/contract.md. With one prompt length, workload and results stand at the top of the\n"
      "JSON object; with several, each has an entry in `points`.");
  command->callback([options, &action] { action = [options] { return bench(*options); }; });
}

}  // namespace lily
