#include "engine/answer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"

namespace lily {
namespace {

std::vector<uint32_t> stop_set(const Vocabulary& vocabulary, const GenerateRequest& request) {
  std::vector<uint32_t> ids = request.stop_ids;
  if (!request.ignore_eos) {
    ids.insert(ids.end(), vocabulary.stop_ids.begin(), vocabulary.stop_ids.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

Answer::Answer(const Vocabulary& vocabulary, const GenerateRequest& request, uint32_t max_tokens)
    : vocabulary_(vocabulary),
      stop_ids_(stop_set(vocabulary, request)),
      min_tokens_(request.min_tokens),
      max_tokens_(max_tokens),
      keep_special_(request.keep_special),
      want_logprobs_(request.logprobs || request.top_logprobs > 0),
      stops_(request.stop_strings),
      stop_strings_(request.stop_strings) {}

std::string Answer::push(const SampleResult& sample) {
  LILY_CHECK(!finished_, "a token after the end of the answer");
  const auto id = static_cast<uint32_t>(sample.token);
  result_.token_ids.push_back(id);
  if (want_logprobs_) {
    TokenLogprobs& entry = result_.logprobs.emplace_back();
    entry.logprob = sample.logprob;
    for (uint32_t i = 0; i < std::min(sample.top_count, kMaxTopLogprobs); ++i) {
      entry.top.emplace_back(sample.top_ids[i], sample.top_logprobs[i]);
    }
  }
  std::string delta;
  if (std::binary_search(stop_ids_.begin(), stop_ids_.end(), id)) {
    delta = flush();
    result_.finish_reason = FinishReason::kStop;
    result_.stop_id = id;
    finished_ = true;
  } else {
    const bool hidden = !keep_special_ && vocabulary_.is_special && vocabulary_.is_special(id);
    if (vocabulary_.piece && !hidden) {
      delta = stops_.push(decoder_.push(vocabulary_.piece(id)));
    }
    if (stops_.matched()) {
      result_.finish_reason = FinishReason::kStop;
      result_.stop_string = stop_strings_[*stops_.matched()];
      finished_ = true;
    } else if (tokens() >= max_tokens_) {
      delta += flush();
      result_.finish_reason = FinishReason::kLength;
      finished_ = true;
    }
  }
  result_.text += delta;
  return delta;
}

void Answer::cancel() {
  result_.tail = flush();
  result_.text += result_.tail;
  result_.finish_reason = FinishReason::kCancelled;
  finished_ = true;
}

void Answer::fail(std::string message) {
  result_.finish_reason = FinishReason::kError;
  result_.error = std::move(message);
  finished_ = true;
}

/// The end of the text: an unfinished character, and what was held back for a stop string. An unfinished character
/// becomes U+FFFD and may complete a stop string only in theory; it is then cut like any other.
std::string Answer::flush() {
  std::string rest = stops_.push(decoder_.finish());
  rest += stops_.finish();
  return rest;
}

}  // namespace lily
