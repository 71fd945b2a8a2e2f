// The measurements of `lily bench`: one run of a prompt and its decode steps, and the figures made of several runs.
// The contract they follow is bench/contract.md.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "text/json_text.h"

namespace lily {

class Engine;

/// Prompt of the contract: id i is ((i * 2654435761) mod 2^32) mod vocabulary.
std::vector<uint32_t> bench_prompt(uint32_t length, uint32_t vocabulary);
/// FNV-1a, 64 bits, a whole id a step.
uint64_t token_digest(std::span<const uint32_t> ids);

struct BenchRun {
  double prefill_seconds = 0;
  uint32_t first_token = 0;
  double decode_seconds = 0;
  std::vector<double> step_seconds;
  std::vector<uint32_t> decode_ids;  // without the first token
};

struct BenchPoint {
  uint32_t prompt_tokens = 0;
  uint32_t decode_steps = 0;
  std::vector<BenchRun> runs;

  /// The run whose time is the median (the faster middle one of an even number).
  const BenchRun& median_prefill() const;
  const BenchRun& median_decode() const;
};

/// A warm-up and `repeat` runs. `on_run(n)` is called before each, 0 being the warm-up. Throws Error(kRuntime) when a
/// run fails or generates other tokens than the one before.
BenchPoint measure_point(Engine& engine, uint32_t prompt_tokens, uint32_t decode_steps, uint32_t repeat,
                         const std::function<void(uint32_t)>& on_run);

/// {workload, results, repeats} of the contract; `depth`: steps the backend keeps in flight.
ordered_json point_json(const BenchPoint& point, uint32_t depth);

}  // namespace lily
