#include "app/bench_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/exit_status.h"
#include "base/clock.h"
#include "engine/engine.h"

namespace lily {
namespace {

/// One request on a fresh session. The clock of decode starts when the first token has been read, at which point a
/// backend of depth 2 has the first decode step in flight, and stops with the last step's token; the token after it is
/// the look-ahead step, which is drained outside.
BenchRun measure_run(Engine& engine, Session& session, const std::vector<uint32_t>& prompt, uint32_t decode_steps) {
  session.reset();
  GenerateRequest request;
  request.prompt = prompt;
  request.sampling.temperature = 0;
  request.sampling.presence_penalty = 0;
  request.sampling.repetition_penalty = 1;
  request.ignore_eos = true;
  request.max_tokens = decode_steps + 2;
  BenchRun run;
  uint32_t tokens = 0;
  double last = 0;
  GenerateCallbacks callbacks;
  const Stopwatch clock;
  callbacks.on_token = [&](const TokenEvent& event) {
    const double now = clock.elapsed_ms() / 1000;
    if (tokens == 0) {
      run.prefill_seconds = now;
      run.first_token = event.id;
    } else if (tokens <= decode_steps) {
      run.step_seconds.push_back(now - last);
      run.decode_ids.push_back(event.id);
      run.decode_seconds = now - run.prefill_seconds;
    }
    last = now;
    ++tokens;
  };
  const GenerateResult result = value_or_raise(engine.generate(session, request, callbacks));
  if (result.finish_reason == FinishReason::kError) throw Error(ErrorCode::kRuntime, "{}", result.error);
  LILY_CHECK(run.decode_ids.size() == decode_steps, "bench: {} decode steps, expected {}", run.decode_ids.size(),
             decode_steps);
  return run;
}

template <typename Time>
const BenchRun& median_by(const std::vector<BenchRun>& runs, Time time) {
  LILY_CHECK(!runs.empty(), "a bench point without runs");
  std::vector<const BenchRun*> order;
  order.reserve(runs.size());
  for (const BenchRun& run : runs) order.push_back(&run);
  std::sort(order.begin(), order.end(), [&](const BenchRun* a, const BenchRun* b) { return time(*a) < time(*b); });
  return *order[(order.size() - 1) / 2];
}

double per_second(uint32_t tokens, double seconds) {
  return seconds > 0 ? tokens / seconds : 0;
}

ordered_json prefill_json(const BenchRun& run, uint32_t prompt_tokens) {
  return {{"wall_secs", run.prefill_seconds},
          {"tok_s", per_second(prompt_tokens, run.prefill_seconds)},
          {"first_token_id", run.first_token}};
}

ordered_json decode_json(const BenchRun& run) {
  return {{"wall_secs", run.decode_seconds},
          {"tok_s", per_second(static_cast<uint32_t>(run.decode_ids.size()), run.decode_seconds)},
          {"step_wall_secs", run.step_seconds},
          {"gpu_passes", nullptr},
          {"lookahead_gpu_pass", nullptr},
          {"token_digest", fmt::format("0x{:016x}", token_digest(run.decode_ids))},
          {"token_ids", run.decode_ids}};
}

}  // namespace

std::vector<uint32_t> bench_prompt(uint32_t length, uint32_t vocabulary) {
  std::vector<uint32_t> ids(length);
  for (uint32_t i = 0; i < length; ++i) ids[i] = (i * 2654435761U) % vocabulary;
  return ids;
}

uint64_t token_digest(std::span<const uint32_t> ids) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const uint32_t id : ids) hash = (hash ^ id) * 0x100000001b3U;
  return hash;
}

const BenchRun& BenchPoint::median_prefill() const {
  return median_by(runs, [](const BenchRun& run) { return run.prefill_seconds; });
}

const BenchRun& BenchPoint::median_decode() const {
  return median_by(runs, [](const BenchRun& run) { return run.decode_seconds; });
}

BenchPoint measure_point(Engine& engine, uint32_t prompt_tokens, uint32_t decode_steps, uint32_t repeat,
                         const std::function<void(uint32_t)>& on_run) {
  BenchPoint point{.prompt_tokens = prompt_tokens, .decode_steps = decode_steps, .runs = {}};
  const std::vector<uint32_t> prompt = bench_prompt(prompt_tokens, engine.shape().vocab);
  Session session = value_or_raise(engine.open_session());
  on_run(0);
  measure_run(engine, session, prompt, 1);
  for (uint32_t n = 1; n <= repeat; ++n) {
    on_run(n);
    point.runs.push_back(measure_run(engine, session, prompt, decode_steps));
    const BenchRun& first = point.runs.front();
    const BenchRun& last = point.runs.back();
    if (last.first_token != first.first_token || last.decode_ids != first.decode_ids) {
      throw Error(ErrorCode::kRuntime, "run {} of the prompt of {} tokens generated other tokens than run 1", n,
                  prompt_tokens);
    }
  }
  return point;
}

ordered_json point_json(const BenchPoint& point, uint32_t depth) {
  ordered_json repeats = ordered_json::array();
  for (const BenchRun& run : point.runs) {
    repeats.push_back({{"prefill", prefill_json(run, point.prompt_tokens)}, {"decode", decode_json(run)}});
  }
  ordered_json out = ordered_json::object();
  out["workload"] = {{"prompt_len", point.prompt_tokens},
                     {"prompt_kind", "u32_golden_ratio_hash_mod_vocab"},
                     {"decode_steps", point.decode_steps},
                     {"decode_mode", depth >= 2 ? "production_depth2_concurrent" : "production_depth1"},
                     {"gpu_timing_diagnostic", false}};
  out["results"] = {{"prefill", prefill_json(point.median_prefill(), point.prompt_tokens)},
                    {"decode", decode_json(point.median_decode())}};
  out["repeats"] = std::move(repeats);
  return out;
}

}  // namespace lily
