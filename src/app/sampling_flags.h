// Sampling and stop options of the command line. Ranges are the engine's to check; here text becomes values.
#pragma once

#include <cstdint>
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

void add_sampling_flags(CLI::App& command, SamplingFlags& flags);

/// The flags as a request without a prompt. Failure: a logit bias that is not id=value.
Result<GenerateRequest> request_from(const SamplingFlags& flags);

}  // namespace lily
