// Checks a request against the model and its limits before it may run.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/generate.h"
#include "plan/step.h"

namespace lily {

class Engine;

struct Admission {
  SampleParams params;      // seed chosen; sequence, row and position are left open
  uint32_t max_tokens = 0;  // tokens that may be sampled: what was asked for, within the context
};

/// kInvalid names the field, its value and what was expected; kTooLong gives the prompt's length and the limit.
Result<Admission> admit(const Engine& engine, const GenerateRequest& request);

}  // namespace lily
