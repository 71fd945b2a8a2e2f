// What a step works on: runs of rows of several sequences, where their tokens come from, and how their logits are
// sampled. A compiled program is reused with a new Step each time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lily {

constexpr uint32_t kKvBlockTokens = 64;  // tokens a KV block holds
constexpr uint32_t kMaxTopLogprobs = 20;
constexpr uint32_t kStepRing = 3;  // result rows are kept for this many steps, since two may be in flight

/// After `rows_done` rows of the run, the recurrent state and conv window are also written to state slot `slot`.
struct StateSnapshot {
  uint32_t rows_done = 0;
  uint32_t slot = 0;
};

/// Consecutive rows of one sequence.
struct Run {
  uint32_t sequence = 0;        // row of the block table, and slot of mailbox and token counts
  uint32_t state_in = 0;        // state slot read; read as zeros when first_position is 0
  uint32_t state_out = 0;       // state slot written; equal to state_in in place
  uint32_t first_position = 0;  // absolute position of the first row
  uint32_t first_row = 0;       // first row inside the step
  uint32_t rows = 0;
  uint32_t logit_rows = 0;  // how many of the last rows need logits
  std::vector<StateSnapshot> snapshots;
};

/// How one logit row becomes a token. Order of the stages: bias and mask, penalties, temperature, top-k, top-p, min-p,
/// draw.
struct SampleParams {
  uint32_t sequence = 0;     // slot of mailbox and token counts
  uint32_t logit_row = 0;    // row of the logits buffer
  float temperature = 0.0F;  // 0: argmax, ties to the lower id
  uint32_t top_k = 0;        // 0: off
  float top_p = 1.0F;
  float min_p = 0.0F;
  float presence_penalty = 0.0F;    // subtracted once from every generated id
  float frequency_penalty = 0.0F;   // subtracted per occurrence of a generated id
  float repetition_penalty = 1.0F;  // divides a positive, multiplies a negative logit of every id in prompt or output
  uint64_t seed = 0;
  uint32_t choice = 0;        // index of the choice among n
  uint32_t position = 0;      // position of the sampled token: the draw is a pure function of (seed, choice, position)
  uint32_t top_logprobs = 0;  // how many alternatives to report, at most kMaxTopLogprobs
  bool want_logprob = false;
  uint32_t vocabulary = 0;                       // ids at or above are padding and never drawn
  std::vector<std::pair<uint32_t, float>> bias;  // (id, added to the logit)
  std::vector<uint32_t> banned;                  // ids never drawn
  const uint32_t* mask = nullptr;                // [V / 32] bits, 1 = allowed; nullptr: all
  bool counts_tokens() const {
    return presence_penalty != 0.0F || frequency_penalty != 0.0F || repetition_penalty != 1.0F;
  }
};

/// What sampling leaves for the host. Log-probabilities are those of the raw logits, before penalties and temperature.
struct SampleResult {
  int32_t token = -1;       // -1: no token was drawn, because the row was not finite or everything is banned
  uint32_t non_finite = 0;  // 1: the row held a NaN or infinity; no token was drawn
  float logprob = 0.0F;
  uint32_t top_count = 0;
  uint32_t top_ids[kMaxTopLogprobs] = {};
  float top_logprobs[kMaxTopLogprobs] = {};
};

/// One submission of a program.
struct Step {
  std::vector<Run> runs;
  std::vector<int32_t> tokens;        // [rows]: an id, or -1 - slot for the mailbox slot that holds it
  std::vector<SampleParams> samples;  // read by the sample program
  uint32_t ring = 0;                  // which third of the results buffer is written
  uint32_t rows() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t logit_rows() const {
    uint32_t total = 0;
    for (const Run& run : runs) total += run.logit_rows;
    return total;
  }
};

}  // namespace lily
