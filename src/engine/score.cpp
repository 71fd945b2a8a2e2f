#include "engine/score.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/model_runner.h"
#include "engine/session.h"

namespace lily {
namespace {

constexpr size_t kLanes = 16;  // independent sums, so that the compiler may use vector registers without reordering

/// exp(x) for x <= 0 to about 2e-7 relative, exp(-87) below -87; branch-free, so that a loop over it is vectorised.
float exp_negative(float x) {
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  // Clamped as an integer: a comparison of floats may trap, and the loop would stay scalar.
  const auto magnitude = std::bit_cast<int32_t>(x) & INT32_MAX;
  constexpr auto kLargest = std::bit_cast<int32_t>(87.0F);
  const float scaled = std::bit_cast<float>(magnitude < kLargest ? magnitude : kLargest) * -1.44269504F;
  const float shifted = scaled + kShift;
  const float fraction = scaled - (shifted - kShift);  // -0.5 .. 0.5
  float power = 1.53920e-4F;                           // Taylor series of 2^fraction
  power = power * fraction + 1.333558e-3F;
  power = power * fraction + 9.618129e-3F;
  power = power * fraction + 5.550411e-2F;
  power = power * fraction + 2.4022651e-1F;
  power = power * fraction + 6.9314718e-1F;
  power = power * fraction + 1.0F;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127U) << 23U;
  return power * std::bit_cast<float>(exponent);
}

struct RowStatistics {
  PositionScore score;
  double log_sum = 0;  // ln of the sum of exp(logit)
  bool finite = true;
};

RowStatistics row_statistics(std::span<const float> logits) {
  RowStatistics row;
  float first = -INFINITY;
  float second = -INFINITY;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float value = logits[i];
    if (value > first) {
      second = first;
      first = value;
      row.score.argmax = static_cast<uint32_t>(i);
    } else if (value > second) {
      second = value;
    }
  }
  row.score.margin = first - second;

  std::array<float, kLanes> sums{};
  std::array<float, kLanes> zeros{};  // value - value: 0, or NaN where the value is not finite
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = logits[i + lane];
      sums[lane] += exp_negative(value - first);
      zeros[lane] += value - value;
    }
  }
  for (size_t i = whole; i < logits.size(); ++i) {
    sums[0] += exp_negative(logits[i] - first);
    zeros[0] += logits[i] - logits[i];
  }
  double sum = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sum += static_cast<double>(sums[lane]);
    row.finite = row.finite && zeros[lane] == 0.0F;
  }
  row.log_sum = static_cast<double>(first) + std::log(sum);
  return row;
}

struct Pass {
  uint32_t first = 0;  // index into the tokens
  uint32_t rows = 0;
};

std::vector<Pass> passes(uint32_t tokens, const ScoreOptions& options, uint32_t longest) {
  std::vector<Pass> all;
  uint32_t first = 0;
  for (size_t index = 0; first < tokens; ++index) {
    uint32_t rows = longest;
    if (!options.cuts.empty()) {
      rows = options.cuts[std::min(index, options.cuts.size() - 1)];
      LILY_CHECK(rows > 0 && rows <= longest, "a pass of {} rows, expected 1 to {}", rows, longest);
    }
    rows = std::min(rows, tokens - first);
    all.push_back({.first = first, .rows = rows});
    first += rows;
  }
  return all;
}

/// One forward pass over tokens[pass]; leaves the logits of all its rows in `logits`.
Result<PlanMode> forward(ModelRunner& runner, Session& session, std::span<const uint32_t> tokens,
                         std::vector<float>& logits) {
  const auto rows = static_cast<uint32_t>(tokens.size());
  if (auto reserved = session.reserve(rows); !reserved) {
    return reserved.failure();
  }
  Step step;
  Run run = session.next_run(rows);
  run.logit_rows = rows;
  step.runs.push_back(run);
  for (const uint32_t token : tokens) {
    step.tokens.push_back(static_cast<int32_t>(token));
  }
  const PlanMode mode = rows == 1 ? PlanMode::kDecode : PlanMode::kPrefill;
  runner.wait(runner.forward(mode, step));
  session.append(tokens);
  runner.logits(0, rows, logits);
  return mode;
}

}  // namespace

Result<std::vector<PositionScore>> score(Engine& engine, Session& session, std::span<const uint32_t> tokens,
                                         const ScoreOptions& options) {
  ModelRunner& runner = engine.runner();
  const uint32_t vocab = engine.shape().vocab;
  for (const uint32_t token : tokens) {
    if (token >= vocab) {
      return invalid("token {} to score, expected an id below {}", token, vocab);
    }
  }
  if (session.length() + tokens.size() > engine.context_limit()) {
    return Failure{FailureKind::kTooLong,
                   fmt::format("{} tokens to score after {} in the session, and the context limit is {}", tokens.size(),
                               session.length(), engine.context_limit()),
                   {}};
  }
  std::vector<PositionScore> scores;
  scores.reserve(tokens.size());
  std::vector<float> logits;
  const uint32_t longest = std::min(runner.options().max_chunk, runner.sizes().max_logit_rows);
  for (const Pass pass : passes(static_cast<uint32_t>(tokens.size()), options, longest)) {
    const Result<PlanMode> mode = forward(runner, session, tokens.subspan(pass.first, pass.rows), logits);
    if (!mode) {
      return mode.failure();
    }
    for (uint32_t row = 0; row < pass.rows; ++row) {
      const auto row_logits = std::span(logits).subspan(size_t{row} * vocab, vocab);
      RowStatistics statistics = row_statistics(row_logits);
      if (!statistics.finite) {
        session.reset();
        return Failure{FailureKind::kRuntime,
                       fmt::format("the model produced a logit that is not finite after token {}", pass.first + row),
                       {}};
      }
      const size_t next = size_t{pass.first} + row + 1;
      if (next < tokens.size()) {
        statistics.score.nll = static_cast<float>(statistics.log_sum - static_cast<double>(row_logits[tokens[next]]));
      }
      scores.push_back(statistics.score);
    }
    if (options.on_logits) {
      options.on_logits(pass.first, logits);
    }
    if (options.on_hidden && runner.options().capture_hidden) {
      options.on_hidden(pass.first, pass.rows, runner.hidden(mode.value(), pass.rows));
    }
  }
  return scores;
}

Result<Perplexity> perplexity(Engine& engine, std::span<const uint32_t> tokens, uint32_t window,
                              const PerplexityCallbacks& callbacks) {
  if (window < 2 || window > engine.context_limit()) {
    return invalid("a window of {} tokens, expected 2 to the context limit {}", window, engine.context_limit());
  }
  Perplexity result;
  result.windows = static_cast<uint32_t>(tokens.size() / window);
  if (result.windows == 0) {
    return invalid("{} tokens to score, expected at least a window of {}", tokens.size(), window);
  }
  Result<Session> session = engine.open_session();
  if (!session) {
    return session.failure();
  }
  for (uint32_t index = 0; index < result.windows; ++index) {
    session.value().reset();
    ScoreOptions options;
    if (callbacks.on_progress) {
      options.on_logits = [&](uint32_t first, std::span<const float> logits) {
        const uint64_t done = uint64_t{index} * window + first + logits.size() / engine.shape().vocab;
        callbacks.on_progress(done, uint64_t{result.windows} * window);
      };
    }
    const auto scores = score(engine, session.value(), tokens.subspan(size_t{index} * window, window), options);
    if (!scores) {
      return scores.failure();
    }
    for (size_t i = 0; i + 1 < scores.value().size(); ++i) {  // nothing follows the last token
      result.mean_nll += static_cast<double>(scores.value()[i].nll);
      ++result.scored_tokens;
    }
    if (callbacks.on_window && !callbacks.on_window(index + 1, scores.value())) {
      return Failure{FailureKind::kCancelled, "scoring was cancelled", {}};
    }
  }
  result.mean_nll /= static_cast<double>(result.scored_tokens);
  result.perplexity = std::exp(result.mean_nll);
  return result;
}

}  // namespace lily
