// Turns the sampled tokens of one request into text and decides when the answer ends.
// Knows no device and no schedule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "engine/stop_strings.h"
#include "plan/step.h"
#include "text/stream_decoder.h"

namespace lily {

struct Vocabulary;

class Answer {
 public:
  /// `vocabulary` outlives the answer; `max_tokens` is at least 1.
  Answer(const Vocabulary& vocabulary, const GenerateRequest& request, uint32_t max_tokens);

  /// Takes a sampled token and returns the text that became certain with it. Not after finished().
  std::string push(const SampleResult& sample);
  bool finished() const { return finished_; }
  /// Ends the answer early; text that was held back goes to result().tail.
  void cancel();
  /// Ends the answer with an error.
  void fail(std::string message);

  uint32_t tokens() const { return static_cast<uint32_t>(result_.token_ids.size()); }
  uint32_t max_tokens() const { return max_tokens_; }
  /// Stop tokens must not be drawn as token number `index` of the answer.
  bool bans_stop_at(uint32_t index) const { return index < min_tokens_; }
  /// Tokens that end the answer: the request's and, unless it ignores them, the model's.
  const std::vector<uint32_t>& stop_ids() const { return stop_ids_; }
  GenerateResult& result() { return result_; }

 private:
  std::string flush();

  const Vocabulary& vocabulary_;
  std::vector<uint32_t> stop_ids_;
  uint32_t min_tokens_;
  uint32_t max_tokens_;
  bool keep_special_;
  bool want_logprobs_;
  StreamDecoder decoder_;
  StopStrings stops_;
  std::vector<std::string> stop_strings_;
  bool finished_ = false;
  GenerateResult result_;
};

}  // namespace lily
