#include "text/output_parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "text/argument_types.h"

namespace lily {
namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";
constexpr std::string_view kCallOpen = "<tool_call>";
constexpr std::string_view kCallCloseTag = "</tool_call>";
constexpr std::string_view kFunctionOpen = "<function=";
constexpr std::string_view kFunctionCloseTag = "</function>";
constexpr std::string_view kParameterOpen = "<parameter=";
constexpr std::string_view kParameterCloseTag = "</parameter>";
constexpr size_t kMaxNameBytes = 256;

constexpr std::string_view kSpace = " \t\n\r\v\f";

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string new_call_id(const std::function<uint64_t()>& random_bits) {
  const uint64_t high = random_bits();
  const uint64_t low = random_bits();
  return fmt::format("call_{:016x}{:08x}", high, low & 0xffffffffU);
}

const ordered_json* member(const ordered_json& object, const std::string& key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

OutputParser::OutputParser(OutputParserOptions options)
    : options_(std::move(options)), state_(options_.starts_in_reasoning ? State::kReasoning : State::kContent) {
  LILY_CHECK(!options_.parse_tools || options_.random_bits, "tool calls need a source of ids");
  if (!options_.parse_tools || !options_.tools.is_array()) return;
  for (const ordered_json& tool : options_.tools) {
    const ordered_json* wrapped = member(tool, "function");
    const ordered_json& function = wrapped != nullptr ? *wrapped : tool;
    const ordered_json* name = member(function, "name");
    if (name == nullptr || !name->is_string()) continue;
    const ordered_json* parameters = member(function, "parameters");
    schemas_[name->get<std::string>()] = parameters != nullptr ? *parameters : ordered_json();
  }
}

std::vector<ParserEvent> OutputParser::push(std::string_view text) {
  LILY_CHECK(!ended_, "text after the end");
  buffer_ += text;
  run();
  return std::exchange(events_, {});
}

std::vector<ParserEvent> OutputParser::finish(FinishCause cause) {
  LILY_CHECK(!ended_, "a second end");
  ended_ = true;
  cause_ = cause;
  run();
  end_text();
  return std::exchange(events_, {});
}

void OutputParser::run() {
  while (step()) {
  }
  if (state_ == State::kReasoning || state_ == State::kContent) flush_text();
  compact();
}

bool OutputParser::step() {
  switch (pending_) {
    case Pending::kNone:
      break;
    case Pending::kOpener:
      return step_opener();
    case Pending::kOpenerName:
      return step_opener_name();
    case Pending::kBareName:
      return step_bare_name();
    case Pending::kBareFollow:
      return step_bare_follow();
    case Pending::kParameterKey:
      return step_parameter_key();
    case Pending::kNextKey:
      return step_next_key();
    case Pending::kParamClose:
    case Pending::kFunctionClose:
    case Pending::kCallClose:
    case Pending::kQuotedCall:
      return step_value_closer();
  }
  if (state_ == State::kCall) return step_call();
  if (state_ == State::kValue) return step_value();
  return step_text();
}

OutputParser::Match OutputParser::match(size_t at, std::string_view tag) const {
  const std::string_view there = view(at, std::min(at + tag.size(), buffer_.size()));
  if (!tag.starts_with(there)) return Match::kNo;
  return there.size() == tag.size() ? Match::kFull : Match::kPartial;
}

bool OutputParser::skip_space() {
  pos_ = std::min(buffer_.find_first_not_of(kSpace, pos_), buffer_.size());
  return pos_ < buffer_.size();
}

/// Looks from `begin` for the '>' of a name or key, resuming at name_scan_. True once it is decided: then `valid` tells
/// whether it is one, and `end` where its '>' is.
bool OutputParser::find_name(size_t begin, size_t& end, bool& valid) {
  end = buffer_.find_first_of("<>\n", std::max(begin, name_scan_));
  if (end == std::string::npos) {
    name_scan_ = buffer_.size();
    valid = false;
    return ended_ || buffer_.size() - begin > kMaxNameBytes;
  }
  valid = buffer_[end] == '>' && end - begin <= kMaxNameBytes && !trim(view(begin, end)).empty();
  return true;
}

void OutputParser::begin_pending(Pending pending, size_t tag_bytes) {
  pending_ = pending;
  pending_begin_ = pos_;
  pending_end_ = pos_ + tag_bytes;
  name_scan_ = pending_end_;
  pos_ = pending_end_;
}

/// The pending tag turns out to be plain text; what follows it is looked at anew.
void OutputParser::reject_pending() {
  pending_ = Pending::kNone;
  visible_end_ = std::max(visible_end_, pending_end_);
}

// ---- Reasoning and content

void OutputParser::scan_plain_text(size_t end) {
  const size_t last = view(pos_, end).find_last_not_of(kSpace);
  if (last != std::string_view::npos) visible_end_ = pos_ + last + 1;
  pos_ = end;
}

bool OutputParser::step_text() {
  const bool content = state_ == State::kContent;
  if (content && strip_newlines_) {
    pos_ = std::min(buffer_.find_first_not_of('\n', pos_), buffer_.size());
    start_ = visible_end_ = pos_;
    strip_newlines_ = pos_ == buffer_.size();
  }
  if (content && !options_.parse_tools) {
    pos_ = visible_end_ = buffer_.size();
    return false;
  }
  const size_t tag_at = buffer_.find('<', pos_);
  scan_plain_text(std::min(tag_at, buffer_.size()));
  if (tag_at == std::string::npos) return false;

  std::array<std::string_view, 4> tags{};
  if (content) {
    tags = {kCallOpen, kCallCloseTag, kFunctionOpen, think_close_due_ ? kThinkClose : std::string_view()};
  } else {
    const bool at_start = !reasoning_started_ && !think_open_dropped_ && visible_end_ <= start_;
    tags = {kThinkClose,
            options_.parse_tools ? kCallOpen : std::string_view(),
            at_start ? kThinkOpen : std::string_view(),
            {}};
  }
  for (const std::string_view tag : tags) {
    if (tag.empty()) continue;
    const Match found = match(pos_, tag);
    if (found == Match::kPartial && !ended_) return false;
    if (found == Match::kFull) {
      take_text_tag(tag);
      return true;
    }
  }
  visible_end_ = ++pos_;
  return true;
}

void OutputParser::take_text_tag(std::string_view tag) {
  if (tag == kCallOpen) return begin_pending(Pending::kOpener, tag.size());
  if (tag == kFunctionOpen) return begin_pending(Pending::kBareName, tag.size());
  // The other tags vanish, with the white space before them.
  flush_text();
  pos_ += tag.size();
  start_ = visible_end_ = pos_;
  if (tag == kThinkOpen) think_open_dropped_ = true;
  if (tag == kCallCloseTag) after_markup_ = true;
  if (tag == kThinkClose && state_ == State::kReasoning) {
    state_ = State::kContent;
    strip_newlines_ = true;
  } else if (tag == kThinkClose) {
    think_close_due_ = false;
    after_markup_ = true;
  }
}

bool OutputParser::step_opener() {
  const bool more = skip_space();
  const Match found = more ? match(pos_, kFunctionOpen) : Match::kPartial;
  if (found == Match::kPartial && !ended_) return false;
  if (found == Match::kFull) {
    pending_ = Pending::kOpenerName;
    name_scan_ = pos_ + kFunctionOpen.size();
    return true;
  }
  // At a cut the call has begun; with the model's own end the tag was only mentioned.
  if (found == Match::kPartial && cause_ == FinishCause::kLength) {
    pending_ = Pending::kNone;
    flush_text();
    pos_ = start_ = visible_end_ = buffer_.size();
    after_markup_ = true;
    return false;
  }
  reject_pending();
  return true;
}

bool OutputParser::step_opener_name() {
  const size_t begin = pos_ + kFunctionOpen.size();
  size_t end = 0;
  bool valid = false;
  if (!find_name(begin, end, valid)) return false;
  if (valid) {
    flush_text();
    begin_call(trim(view(begin, end)));
    pos_ = start_ = end + 1;
  } else if (end == std::string::npos && ended_ && cause_ == FinishCause::kLength) {
    pending_ = Pending::kNone;
    flush_text();
    pos_ = start_ = visible_end_ = buffer_.size();
    after_markup_ = true;
  } else {
    reject_pending();
  }
  return true;
}

bool OutputParser::step_bare_name() {
  size_t end = 0;
  bool valid = false;
  if (!find_name(pending_end_, end, valid)) return false;
  if (!valid || !schemas_.contains(trim(view(pending_end_, end)))) {
    pos_ = pending_end_;
    reject_pending();
    return true;
  }
  pending_ = Pending::kBareFollow;
  pending_end_ = pos_ = end + 1;
  return true;
}

bool OutputParser::step_bare_follow() {
  bool follows = !skip_space() && ended_;
  if (!follows) {
    if (pos_ == buffer_.size()) return false;
    if (!follow_decides(follows)) return false;
  }
  if (!follows) {
    reject_pending();
    return true;
  }
  const size_t name_begin = pending_begin_ + kFunctionOpen.size();
  flush_text();
  begin_call(trim(view(name_begin, pending_end_ - 1)));
  start_ = pos_;
  return true;
}

/// Sets `follows` to whether one of the tags that confirm the pending one stands at pos_. False when that needs more
/// text.
bool OutputParser::follow_decides(bool& follows) {
  std::array<std::string_view, 5> tags{};
  switch (pending_) {
    case Pending::kBareFollow:
      tags = {kParameterOpen, kFunctionCloseTag};
      break;
    case Pending::kParamClose:
      tags = {kParameterOpen, kFunctionCloseTag, kCallCloseTag, kParameterCloseTag, kCallOpen};
      break;
    case Pending::kFunctionClose:
      tags = {kCallCloseTag};
      break;
    case Pending::kCallClose:
      tags = {kCallOpen};
      break;
    case Pending::kQuotedCall:
      tags = {kFunctionOpen};
      break;
    default:
      LILY_CHECK(false, "no tag is awaited");
  }
  follows = false;
  for (const std::string_view tag : tags) {
    if (tag.empty()) continue;
    const Match found = match(pos_, tag);
    if (found == Match::kPartial) {
      if (!ended_) return false;
      follows = true;  // the closer after it was cut
    }
    if (found != Match::kFull) continue;
    // Before a second closer or the next call, </parameter> inside a line is part of the value if the value has its own
    // lines.
    const bool weak = pending_ == Pending::kParamClose && (tag == kParameterCloseTag || tag == kCallOpen);
    follows = !weak || on_new_line(pending_begin_) || !view(start_, pending_begin_).starts_with('\n');
  }
  return true;
}

// ---- Inside a call

bool OutputParser::step_call() {
  pos_ = std::min(buffer_.find('<', pos_), buffer_.size());
  start_ = pos_;
  if (pos_ == buffer_.size()) return false;
  for (const std::string_view tag : {kParameterOpen, kFunctionCloseTag, kParameterCloseTag, kCallCloseTag, kCallOpen}) {
    const Match found = match(pos_, tag);
    if (found == Match::kPartial && !ended_) return false;
    if (found != Match::kFull) continue;
    if (tag == kParameterOpen) {
      begin_pending(Pending::kParameterKey, tag.size());
      return true;
    }
    if (tag != kCallOpen) pos_ += tag.size();
    if (tag != kParameterCloseTag) end_call(true);  // a closer too many is passed over
    return true;
  }
  ++pos_;
  return true;
}

bool OutputParser::step_parameter_key() {
  size_t end = 0;
  bool valid = false;
  if (!find_name(pending_end_, end, valid)) return false;
  pending_ = Pending::kNone;
  if (!valid) {
    const bool cut = ended_ && end == std::string::npos;
    pos_ = cut ? buffer_.size() : pending_end_;
    if (cut) end_call(false);
    return true;
  }
  key_ = trim(view(pending_end_, end));
  start_ = pos_ = end + 1;
  state_ = State::kValue;
  in_quoted_call_ = quoted_a_call_ = false;
  return true;
}

bool OutputParser::step_value() {
  pos_ = std::min(buffer_.find('<', pos_), buffer_.size());
  if (pos_ == buffer_.size()) {
    if (!ended_ || !quoted_a_call_ || cause_ == FinishCause::kLength) return false;
    // The quote took the rest of the text with it, so it was none: read the value again without quotes, once.
    quotes_allowed_ = in_quoted_call_ = quoted_a_call_ = false;
    pos_ = start_;
    return true;
  }
  std::array<std::string_view, 5> tags = {kParameterCloseTag, kFunctionCloseTag, {}, {}, {}};
  if (in_quoted_call_) {
    tags = {kCallCloseTag, {}, {}, {}, {}};
  } else {
    if (quotes_allowed_) tags[2] = kCallOpen;
    if (on_new_line(pos_)) {
      tags[3] = kParameterOpen;
      tags[4] = kCallCloseTag;
    }
  }
  for (const std::string_view tag : tags) {
    if (tag.empty()) continue;
    const Match found = match(pos_, tag);
    if (found == Match::kPartial && !ended_) return false;
    if (found == Match::kFull) {
      take_value_tag(tag);
      return true;
    }
  }
  ++pos_;
  return true;
}

void OutputParser::take_value_tag(std::string_view tag) {
  if (in_quoted_call_) {
    in_quoted_call_ = false;
    pos_ += tag.size();
    return;
  }
  Pending pending = Pending::kParamClose;
  if (tag == kFunctionCloseTag) pending = Pending::kFunctionClose;
  if (tag == kCallCloseTag) pending = Pending::kCallClose;
  if (tag == kCallOpen) pending = Pending::kQuotedCall;
  if (tag == kParameterOpen) pending = Pending::kNextKey;
  begin_pending(pending, tag.size());
}

bool OutputParser::step_next_key() {
  size_t end = 0;
  bool valid = false;
  if (!find_name(pending_end_, end, valid)) return false;
  pending_ = Pending::kNone;
  if (valid && declared_key(trim(view(pending_end_, end)))) {
    pos_ = pending_begin_;
    end_value(pending_begin_);
  } else {
    pos_ = pending_end_;
  }
  return true;
}

bool OutputParser::step_value_closer() {
  bool follows = false;
  if (skip_space()) {
    if (!follow_decides(follows)) return false;
  } else {
    if (!ended_) return false;
    follows = true;
  }
  const Pending pending = std::exchange(pending_, Pending::kNone);
  // A cut tells nothing about what would have followed; only </parameter> is taken on its word.
  const bool at_end = ended_ && pos_ == buffer_.size();
  if (at_end && cause_ == FinishCause::kLength && pending != Pending::kParamClose) follows = false;
  if (at_end && pending == Pending::kQuotedCall) follows = false;
  if (!follows) return true;
  if (pending == Pending::kQuotedCall) {
    in_quoted_call_ = quoted_a_call_ = true;
    return true;
  }
  if (pending != Pending::kParamClose) pos_ = pending_begin_;
  end_value(pending_begin_);
  return true;
}

/// The declared parameters of the current call; null when none are known.
const ordered_json* OutputParser::properties() const {
  const ordered_json* properties = schema_ != nullptr ? member(*schema_, "properties") : nullptr;
  return properties != nullptr && properties->is_object() ? properties : nullptr;
}

bool OutputParser::declared_key(std::string_view key) const {
  const ordered_json* known = properties();
  return known == nullptr || known->contains(std::string(key));
}

// ---- Events

/// Hands out the text that is known to be visible.
void OutputParser::flush_text() {
  if (visible_end_ <= start_) return;
  std::string_view text = view(start_, visible_end_);
  const bool reasoning = state_ == State::kReasoning;
  if (reasoning ? !reasoning_started_ : after_markup_ && !content_started_) {
    text.remove_prefix(text.find_first_not_of(kSpace));  // it holds something visible
  }
  (reasoning ? reasoning_started_ : content_started_) = true;
  if (!reasoning) after_markup_ = false;
  emit_text(reasoning ? ParserEvent::Kind::kReasoning : ParserEvent::Kind::kContent, text);
  start_ = visible_end_;
}

void OutputParser::emit_text(ParserEvent::Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (events_.empty() || events_.back().kind != kind) {
    events_.push_back({.kind = kind, .text = {}, .call_index = 0, .call_id = {}, .complete = false});
  }
  events_.back().text += text;
}

void OutputParser::begin_call(std::string_view name) {
  const auto found = schemas_.find(name);
  schema_ = found == schemas_.end() ? nullptr : &found->second;
  events_.push_back({.kind = ParserEvent::Kind::kCallBegin,
                     .text = std::string(name),
                     .call_index = call_count_,
                     .call_id = new_call_id(options_.random_bits),
                     .complete = false});
  if (state_ == State::kReasoning) think_close_due_ = true;
  state_ = State::kCall;
  pending_ = Pending::kNone;
  seen_keys_.clear();
}

/// Hands out the parameter whose value is [start_, end).
void OutputParser::end_value(size_t end) {
  std::string_view text = view(start_, end);
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  const bool first = seen_keys_.empty();
  if (seen_keys_.insert(key_).second) {
    const ordered_json* known = properties();
    const ordered_json* schema = known != nullptr ? member(*known, key_) : nullptr;
    const ordered_json none;
    const ordered_json value = coerce_argument(text, schema, schema_ != nullptr ? *schema_ : none);
    events_.push_back({.kind = ParserEvent::Kind::kCallArguments,
                       .text = (first ? "{" : ",") + compact_json(key_) + ":" + compact_json(value),
                       .call_index = call_count_,
                       .call_id = {},
                       .complete = false});
  }
  state_ = State::kCall;
  start_ = pos_;
}

/// Closes the arguments; content follows at pos_.
void OutputParser::end_call(bool complete) {
  events_.push_back({.kind = ParserEvent::Kind::kCallArguments,
                     .text = seen_keys_.empty() ? "{}" : "}",
                     .call_index = call_count_,
                     .call_id = {},
                     .complete = false});
  events_.push_back({.kind = ParserEvent::Kind::kCallEnd,
                     .text = {},
                     .call_index = call_count_,
                     .call_id = {},
                     .complete = complete});
  ++call_count_;
  state_ = State::kContent;
  start_ = visible_end_ = pos_;
  after_markup_ = true;
}

/// After the last step of a text that has ended: what is held back is settled.
void OutputParser::end_text() {
  switch (state_) {
    case State::kReasoning:
      return;  // only white space is left
    case State::kContent:
      if (!after_markup_) emit_text(ParserEvent::Kind::kContent, view(start_, buffer_.size()));
      return;
    case State::kCall:
      end_call(cause_ == FinishCause::kStop);
      return;
    case State::kValue:
      end_call(false);
      return;
  }
}

/// Drops what is done from the buffer.
void OutputParser::compact() {
  buffer_.erase(0, start_);
  pos_ -= start_;
  visible_end_ -= std::min(visible_end_, start_);
  pending_begin_ -= std::min(pending_begin_, start_);
  pending_end_ -= std::min(pending_end_, start_);
  name_scan_ -= std::min(name_scan_, start_);
  start_ = 0;
}

}  // namespace lily
