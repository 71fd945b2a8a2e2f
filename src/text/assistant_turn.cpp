#include "text/assistant_turn.h"

#include <algorithm>
#include <utility>

namespace lily {

void AssistantTurn::add(const std::vector<ParserEvent>& events) {
  for (const ParserEvent& event : events) {
    switch (event.kind) {
      case ParserEvent::Kind::kReasoning:
        reasoning += event.text;
        break;
      case ParserEvent::Kind::kContent:
        content += event.text;
        break;
      case ParserEvent::Kind::kCallBegin:
        LILY_CHECK(event.call_index == calls.size(), "call {} begins after {} calls", event.call_index, calls.size());
        calls.push_back({.id = event.call_id, .name = event.text, .arguments = {}, .complete = false});
        break;
      case ParserEvent::Kind::kCallArguments:
        calls.at(event.call_index).arguments += event.text;
        break;
      case ParserEvent::Kind::kCallEnd:
        calls.at(event.call_index).complete = event.complete;
        break;
    }
  }
}

ordered_json AssistantTurn::to_message(FinishCause cause) const {
  ordered_json list = ordered_json::array();
  for (const ToolCall& call : calls) {
    if (!call.complete && cause == FinishCause::kStop) continue;
    ordered_json entry = ordered_json::object();
    entry["id"] = call.id;
    entry["type"] = "function";
    entry["function"] = ordered_json::object({{"name", call.name}, {"arguments", call.arguments}});
    list.push_back(std::move(entry));
  }
  ordered_json message = ordered_json::object();
  message["role"] = "assistant";
  message["content"] = content.empty() && !list.empty() ? ordered_json() : ordered_json(content);
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  if (!list.empty()) message["tool_calls"] = std::move(list);
  return message;
}

std::string AssistantTurn::finish_reason(FinishCause cause) const {
  if (cause == FinishCause::kLength) return "length";
  const bool called = std::any_of(calls.begin(), calls.end(), [](const ToolCall& call) { return call.complete; });
  return called ? "tool_calls" : "stop";
}

}  // namespace lily
