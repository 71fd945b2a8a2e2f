// Teacher-forced scoring: how likely each token of a given text is, for perplexity and for tests against references.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"

namespace lily {

class Engine;
class ModelRunner;
class Session;

/// The prediction made at one position about the token after it.
struct PositionScore {
  float nll = 0.0F;     // -ln p(next token); 0 at the last position, which has no next token
  uint32_t argmax = 0;  // most likely next token, ties to the lower id
  float margin = 0.0F;  // largest minus second largest logit
};

struct ScoreOptions {
  /// Rows of each forward pass in turn, the last one repeated; empty: as many as the logits buffer holds. A pass of one
  /// row runs the decode program, longer ones the prefill program.
  std::vector<uint32_t> cuts;
  /// Called for every pass: first position, and logits [rows, vocabulary] valid during the call.
  std::function<void(uint32_t first, std::span<const float> logits)> on_logits;
  /// Called for every pass when the engine captures hidden states: [layers + 1][rows, hidden] as floats.
  std::function<void(uint32_t first, uint32_t rows, std::span<const float> hidden)> on_hidden;
};

/// Feeds `tokens` at the end of the session and scores each position. kTooLong past the context limit, kRuntime for
/// non-finite logits.
Result<std::vector<PositionScore>> score(Engine& engine, Session& session, std::span<const uint32_t> tokens,
                                         const ScoreOptions& options = {});

struct Perplexity {
  double mean_nll = 0;
  double perplexity = 0;
  uint64_t scored_tokens = 0;
  uint32_t windows = 0;
};

struct PerplexityCallbacks {
  /// After every forward pass: tokens fed, and in all.
  std::function<void(uint64_t done, uint64_t total)> on_progress = {};
  /// After every window: its scores, and how many are done, this one included. Returning false ends it (kCancelled).
  std::function<bool(uint32_t done, std::span<const PositionScore> scores)> on_window = {};
};

/// Perplexity over consecutive windows of `window` tokens, each from an empty session and without the first token of
/// the window; a shorter rest at the end is dropped. kInvalid when there is not one whole window.
Result<Perplexity> perplexity(Engine& engine, std::span<const uint32_t> tokens, uint32_t window,
                              const PerplexityCallbacks& callbacks = {});

}  // namespace lily
