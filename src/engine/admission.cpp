#include "engine/admission.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/engine.h"

namespace lily {
namespace {

template <typename... Args>
Failure bad_field(std::string_view field, fmt::format_string<Args...> format, Args&&... args) {
  return {FailureKind::kInvalid, fmt::format(format, std::forward<Args>(args)...), std::string(field)};
}

Result<void> check_prompt(const Engine& engine, const GenerateRequest& request) {
  const std::vector<uint32_t>& prompt = request.prompt;
  if (prompt.empty()) {
    return bad_field("prompt", "the prompt is empty, expected at least one token");
  }
  const uint32_t ids = engine.shape().vocab;
  const auto wrong = std::find_if(prompt.begin(), prompt.end(), [ids](uint32_t id) { return id >= ids; });
  if (wrong != prompt.end()) {
    return bad_field("prompt", "token {} of the prompt is {}, expected an id below {}", wrong - prompt.begin(), *wrong,
                     ids);
  }
  if (prompt.size() >= engine.context_limit()) {
    return Failure{FailureKind::kTooLong,
                   fmt::format("the prompt has {} tokens, and the context limit is {} tokens for prompt and answer "
                               "together",
                               prompt.size(), engine.context_limit()),
                   "prompt"};
  }
  return {};
}

Result<void> check_stops(const Engine& engine, const GenerateRequest& request) {
  if (request.stop_strings.size() > kMaxStopStrings) {
    return bad_field("stop", "{} stop strings, expected at most {}", request.stop_strings.size(), kMaxStopStrings);
  }
  for (const std::string& stop : request.stop_strings) {
    if (stop.empty()) {
      return bad_field("stop", "a stop string is empty, expected at least one character");
    }
  }
  if (!request.stop_strings.empty() && !engine.vocabulary().piece) {
    return bad_field("stop", "stop strings need a tokenizer, and none is loaded");
  }
  for (const uint32_t id : request.stop_ids) {
    if (id >= engine.vocabulary().size) {
      return bad_field("stop_token_ids", "stop token {} does not exist, expected an id below {}", id,
                       engine.vocabulary().size);
    }
  }
  return {};
}

}  // namespace

Result<Admission> admit(const Engine& engine, const GenerateRequest& request) {
  for (const auto check : {check_prompt, check_stops}) {
    if (auto checked = check(engine, request); !checked) {
      return checked.failure();
    }
  }
  if (request.max_tokens && *request.max_tokens == 0) {
    return bad_field("max_tokens", "max_tokens is 0, expected at least 1");
  }
  if (request.top_logprobs > kMaxTopLogprobs) {
    return bad_field("top_logprobs", "top_logprobs is {}, expected 0 to {}", request.top_logprobs, kMaxTopLogprobs);
  }
  const auto room = engine.context_limit() - static_cast<uint32_t>(request.prompt.size());
  Admission admission;
  admission.max_tokens = std::min(request.max_tokens.value_or(room), room);
  if (request.max_tokens && request.min_tokens > *request.max_tokens) {
    return bad_field("min_tokens", "min_tokens is {}, expected at most max_tokens {}", request.min_tokens,
                     *request.max_tokens);
  }
  auto params = resolve_sampling(request.sampling, engine.default_sampling(), engine.vocabulary().size);
  if (!params) {
    return params.failure();
  }
  admission.params = std::move(params).value();
  admission.params.seed = request.sampling.seed ? *request.sampling.seed : random_seed();
  admission.params.choice = request.choice;
  admission.params.top_logprobs = request.top_logprobs;
  admission.params.want_logprob = request.logprobs || request.top_logprobs > 0;
  return admission;
}

}  // namespace lily
