// Folds the output parser's events into the assistant message of a chat completion.
#pragma once

#include <string>
#include <vector>

#include "text/json_text.h"
#include "text/output_parser.h"

namespace lily {

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // the text of a JSON object
  bool complete = false;  // false: cut; the arguments hold the finished parameters only
};

struct AssistantTurn {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> calls;

  void add(const std::vector<ParserEvent>& events);

  /// {role, content, reasoning_content?, tool_calls?}. content is null when there are calls and no content. Calls that
  /// the token limit cut are in it as in the stream, which has announced them already; finish_reason tells. After a
  /// stop nothing would tell, and calls that were left open are left out.
  ordered_json to_message(FinishCause cause) const;
  /// `length` whenever the token limit ended the text, else `tool_calls` if a call was completed, else `stop`.
  std::string finish_reason(FinishCause cause) const;
};

}  // namespace lily
