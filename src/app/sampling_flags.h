// Sampling and stop options of the command line. Numbers are checked against the table that the engine
// checks them against again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/generate.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace lily {

struct SamplingFlags {
  SamplingOptions sampling;
  std::vector<std::string> logit_bias;  // id=value
  std::vector<std::string> stop;
  std::optional<uint32_t> max_tokens;
};

/// The check of a --seed: says what is expected of one that is no whole number from 0.
std::function<std::string(const std::string&)> seed_check();

void add_sampling_flags(CLI::App& command, SamplingFlags& flags);

/// The flags as a request without a prompt. Failure: a logit bias that is not id=value, a stop text that is no
/// UTF-8.
Result<GenerateRequest> request_from(const SamplingFlags& flags);

}  // namespace lily
