#include "text/normalize_messages.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/python_text.h"

namespace lily {
namespace {

ordered_json* member(ordered_json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

bool has_role(ordered_json& message, const char* role) {
  const ordered_json* value = member(message, "role");
  return value != nullptr && value->is_string() && value->get_ref<const std::string&>() == role;
}

ordered_json parsed_arguments(const ordered_json& arguments) {
  if (arguments.is_object()) return arguments;
  if (arguments.is_null()) return ordered_json::object();
  if (!arguments.is_string()) return ordered_json::object({{"arguments", python_json(arguments)}});
  const auto& text = arguments.get_ref<const std::string&>();
  if (python_strip(text).empty()) return ordered_json::object();
  Result<ordered_json> parsed = parse_json(text);
  if (parsed && parsed.value().is_object()) return std::move(parsed).value();
  if (parsed && parsed.value().is_null()) return ordered_json::object();
  return ordered_json::object({{"arguments", text}});
}

void repair_calls(ordered_json& message) {
  ordered_json* calls = member(message, "tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  for (ordered_json& entry : *calls) {
    ordered_json* function = member(entry, "function");
    ordered_json* arguments = member(function != nullptr ? *function : entry, "arguments");
    if (arguments != nullptr) *arguments = parsed_arguments(*arguments);
  }
}

void copy_reasoning(ordered_json& message) {
  const ordered_json* reasoning = member(message, "reasoning");
  const ordered_json* kept = member(message, "reasoning_content");
  if (reasoning == nullptr || !reasoning->is_string() || (kept != nullptr && !kept->is_null())) return;
  ordered_json copy = *reasoning;  // adding a key moves the others
  message["reasoning_content"] = std::move(copy);
}

/// Joins all system messages into one at the front.
Result<ordered_json> hoist_system(ordered_json messages) {
  std::string text;
  std::vector<ordered_json> others;
  for (ordered_json& message : messages) {
    if (!has_role(message, "system")) {
      others.push_back(std::move(message));
      continue;
    }
    const ordered_json* content = member(message, "content");
    Result<std::string> part = content_text(content != nullptr ? *content : ordered_json(), true);
    if (!part) return part.failure();
    if (python_strip(part.value()).empty()) continue;
    if (!text.empty()) text += "\n\n";
    text += part.value();
  }
  ordered_json result = ordered_json::array();
  result.push_back(ordered_json::object({{"role", "system"}, {"content", std::move(text)}}));
  for (ordered_json& message : others) result.push_back(std::move(message));
  return result;
}

}  // namespace

Result<ordered_json> normalize_messages(ordered_json messages) {
  if (!messages.is_array()) return invalid("messages must be a list, found {}", messages.type_name());
  size_t system_count = 0;
  bool misplaced = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    ordered_json& message = messages[i];
    if (!message.is_object()) return invalid("messages[{}] must be an object, found {}", i, message.type_name());
    if (has_role(message, "developer")) message["role"] = "system";
    if (has_role(message, "system")) {
      ++system_count;
      misplaced = misplaced || i > 0;
    }
    if (has_role(message, "assistant")) {
      repair_calls(message);
      copy_reasoning(message);
    }
  }
  if (system_count == 0 || !misplaced) return messages;
  return hoist_system(std::move(messages));
}

}  // namespace lily
