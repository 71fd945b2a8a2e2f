// One request and its answer: what to generate, how it ends, and what is reported on the way.
// Plain data; the scheduler does the work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/sampling.h"

namespace lily {

struct GenerateRequest {
  /// The whole sequence from position 0, at least one id, every id below the model's vocabulary. The session keeps what
  /// it has already fed when that is a strict prefix of the prompt, and starts over otherwise.
  std::vector<uint32_t> prompt = {};
  SamplingOptions sampling = {};
  std::optional<uint32_t> max_tokens = {};     // unset: up to the context limit; at least 1
  uint32_t min_tokens = 0;                     // stop tokens cannot be drawn before this many tokens
  bool ignore_eos = false;                     // stop tokens are drawn but end nothing
  std::vector<uint32_t> stop_ids = {};         // end the answer as the model's own stop tokens do, ignore_eos or not
  std::vector<std::string> stop_strings = {};  // none empty, at most kMaxStopStrings
  bool logprobs = false;                       // report the log-probability of every token
  uint32_t top_logprobs = 0;                   // and that many alternatives (at most kMaxTopLogprobs); implies logprobs
  bool keep_special = false;                   // special tokens appear in the text (they are skipped otherwise)
  uint32_t choice = 0;                         // index among n choices of one prompt: part of the random draw
  const std::atomic<bool>* cancel = nullptr;   // set it from any thread; seen within one chunk or step
};

inline constexpr size_t kMaxStopStrings = 16;

/// Log-probabilities are those of the raw logits, before bias, penalties and temperature.
struct TokenLogprobs {
  float logprob = 0.0F;
  std::vector<std::pair<uint32_t, float>> top;  // (id, log-probability), most likely first
};

/// One sampled token, the stop token included.
struct TokenEvent {
  uint32_t id = 0;
  /// Text that became certain with this token: valid UTF-8, often empty (inside a character, or while a stop string may
  /// be starting).
  std::string_view text;
  const TokenLogprobs* logprobs = nullptr;  // set when the request asked for them; valid during the call
};

/// Called on the thread that drives the scheduler.
struct GenerateCallbacks {
  /// After every prefill chunk: prompt tokens in the session so far, and in the prompt.
  std::function<void(uint32_t done, uint32_t total)> on_prefill_progress = {};
  std::function<void(const TokenEvent&)> on_token = {};
};

enum class FinishReason : uint8_t {
  kStop,       // a stop token or stop string
  kLength,     // max_tokens or the context limit
  kCancelled,  // the request's cancel flag
  kError,      // see GenerateResult::error; the session has been reset
};
std::string_view finish_reason_name(FinishReason reason);

struct Timings {
  uint32_t cached_tokens = 0;   // prompt tokens that the session already held
  uint32_t prefill_tokens = 0;  // prompt tokens fed by this request
  double prefill_ms = 0;        // until the first token was read
  uint32_t decode_tokens = 0;   // tokens after the first
  double decode_ms = 0;         // from the first token to the last
};

struct GenerateResult {
  std::vector<uint32_t> token_ids;  // every sampled token, the stop token included
  std::string text;                 // without the stop token or stop string
  std::string tail;                 // end of `text` that no event carried; non-empty only after a cancel
  FinishReason finish_reason = FinishReason::kError;
  std::optional<uint32_t> stop_id;         // the stop token that ended it
  std::optional<std::string> stop_string;  // the stop string that ended it
  std::vector<TokenLogprobs> logprobs;     // [token_ids] when asked for
  uint64_t seed = 0;                       // the seed that was used
  Timings timings;
  std::string error;  // one sentence with finish_reason kError
};

}  // namespace lily
