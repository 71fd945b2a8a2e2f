// Splits the model's text into reasoning, content and tool calls, piece by piece as it is generated. The result does
// not depend on how the text is cut into pieces, and the work is linear in its length. The text must be valid UTF-8 as
// a whole; stop strings and the assistant message are other files' (assistant_turn.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/json_text.h"

namespace lily {

/// Why generation ended: the model's end token or a stop string, or the token limit.
enum class FinishCause { kStop, kLength };

struct ParserEvent {
  enum class Kind {
    kReasoning,      // text: more reasoning
    kContent,        // text: more content
    kCallBegin,      // text: the function's name; call_id is set
    kCallArguments,  // text: more JSON; the pieces of one call concatenate to one JSON object
    kCallEnd,        // complete tells whether the model finished the call
  };
  Kind kind = Kind::kContent;
  std::string text;
  size_t call_index = 0;  // of the call events, counted from 0
  std::string call_id;    // of kCallBegin: "call_" and 24 hex digits
  bool complete = false;  // of kCallEnd
};

struct OutputParserOptions {
  bool starts_in_reasoning = false;  // the prompt ended inside an open think block
  bool parse_tools = false;          // off: tool-call markup is ordinary text
  ordered_json tools;                // the request's tools, {type, function: {name, parameters}} or {name, parameters}
  std::function<uint64_t()> random_bits;  // source of the call ids; needed when parse_tools is on
};

/// Reasoning ends at the first </think>, or at a call that begins before it. White space around it is removed, and so
/// is a <think> at its start. Newlines at the start of the content are removed after </think>.
///
/// With parse_tools: white space before a call, and between calls, is removed; text after a call keeps the white space
/// before it. A lone </tool_call> is removed with the white space before it. A <function=name> block without
/// <tool_call> is a call if the name is declared. Other markup that opens no call is content.
///
/// A parameter's value loses one newline at each end. Its closer is the </parameter> after which another parameter, a
/// closing tag or the end follows; a missing one is made up for at <parameter=key> on a new line with a declared key,
/// and at
/// </function> or </tool_call> where those can only be closers. A whole call quoted in a value belongs to the value. Of
/// a repeated key the first value counts. Types follow the schema (argument_types.h).
///
/// Arguments are sent a whole parameter at a time, so a call that is cut holds exactly its finished parameters; it ends
/// with `complete` false. After kStop a call may lack </function>, but not the end of a value.
class OutputParser {
 public:
  explicit OutputParser(OutputParserOptions options);
  OutputParser(const OutputParser&) = delete;  // a schema points into its own map
  OutputParser& operator=(const OutputParser&) = delete;

  /// Takes more text and returns what can be told by now.
  std::vector<ParserEvent> push(std::string_view text);
  /// Ends the text and returns the rest. No push may follow.
  std::vector<ParserEvent> finish(FinishCause cause);

 private:
  enum class State { kReasoning, kContent, kCall, kValue };
  enum class Match { kNo, kPartial, kFull };
  /// Markup whose meaning depends on what follows it.
  enum class Pending {
    kNone,
    kOpener,         // <tool_call>, in text: does <function=name> follow?
    kOpenerName,     // ... its name
    kBareName,       // <function=, in content: is the name declared?
    kBareFollow,     // ... does a parameter or </function> follow?
    kParameterKey,   // <parameter=, between parameters: its key
    kNextKey,        // <parameter= on a new line in a value: is the key declared?
    kParamClose,     // </parameter> in a value
    kFunctionClose,  // </function> in a value
    kCallClose,      // </tool_call> on a new line in a value
    kQuotedCall,     // <tool_call> in a value
  };

  // Each step returns false when it needs more text.
  bool step();
  bool step_text();
  bool step_opener();
  bool step_opener_name();
  bool step_bare_name();
  bool step_bare_follow();
  bool step_call();
  bool step_parameter_key();
  bool step_value();
  bool step_next_key();
  bool step_value_closer();

  void take_text_tag(std::string_view tag);
  void take_value_tag(std::string_view tag);
  void scan_plain_text(size_t end);
  bool follow_decides(bool& follows);
  bool skip_space();
  bool find_name(size_t begin, size_t& end, bool& valid);
  std::string_view view(size_t begin, size_t end) const { return std::string_view(buffer_).substr(begin, end - begin); }
  Match match(size_t at, std::string_view tag) const;
  bool on_new_line(size_t at) const { return at > start_ && buffer_[at - 1] == '\n'; }
  const ordered_json* properties() const;
  bool declared_key(std::string_view key) const;

  void begin_pending(Pending pending, size_t tag_bytes);
  void reject_pending();
  void flush_text();
  void emit_text(ParserEvent::Kind kind, std::string_view text);
  void begin_call(std::string_view name);
  void end_value(size_t end);
  void end_call(bool complete);
  void end_text();
  void run();
  void compact();

  OutputParserOptions options_;
  std::map<std::string, ordered_json, std::less<>> schemas_;  // the parameters' schema of each declared function
  std::vector<ParserEvent> events_;

  // The text not yet handed out, and places in it: [0, start_) is done, [start_, pos_) has been looked at.
  std::string buffer_;
  size_t start_ = 0;  // in a value: where the value begins
  size_t pos_ = 0;
  size_t visible_end_ = 0;  // in text: [start_, visible_end_) may be handed out; what follows is white space or markup
  Pending pending_ = Pending::kNone;
  size_t pending_begin_ = 0;
  size_t pending_end_ = 0;  // end of the pending tag
  size_t name_scan_ = 0;    // how far the pending name has been searched for its end

  State state_;
  bool ended_ = false;
  FinishCause cause_ = FinishCause::kStop;
  bool reasoning_started_ = false;
  bool think_open_dropped_ = false;
  bool think_close_due_ = false;  // reasoning ended at a call: its </think> may still come
  bool strip_newlines_ = false;   // at the start of content after </think>
  bool content_started_ = false;
  bool after_markup_ = false;  // white space at start_ follows a call or a removed tag
  size_t call_count_ = 0;
  const ordered_json* schema_ = nullptr;  // of the current call, null when it is not declared
  std::string key_;                       // of the current value
  std::unordered_set<std::string> seen_keys_;
  bool in_quoted_call_ = false;  // inside a whole call quoted in the value
  bool quoted_a_call_ = false;   // the value had such a quote
  bool quotes_allowed_ = true;
};

}  // namespace lily
