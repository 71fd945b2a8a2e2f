// From a conversation to the ids that a model reads: message and tool files, the model's template, the prompt's length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/json_text.h"

namespace lily {

class Tokenizer;

struct Prompt {
  std::vector<uint32_t> ids;
  std::string text;
  bool starts_in_reasoning = false;  // the answer begins inside the think block
};

/// Which template the model folder ships; logs a warning for one that is not published. Qwen3.6's when there is none.
TemplateVersion model_template(const std::filesystem::path& folder);

/// A JSON list of tools with names, or an object with such a list as `tools`; "-" is standard input. Throws
/// Error(kUsage, kIo).
ordered_json read_tools(const std::string& path);
/// A JSON list of messages, or an object with such a list as `messages`; "-" is standard input. Throws as read_tools().
ordered_json read_messages(const std::string& path);

/// Failure: a message holds an image, a video or anything else that is no text; its index is named.
Result<void> check_text_only(const ordered_json& messages);
/// Failure: the template cannot render the conversation, whatever is said next, or it is not text only; the message's
/// index is named.
Result<void> check_conversation(const ordered_json& messages, TemplateVersion version);

/// Renders and encodes a conversation of text only.
Result<Prompt> make_prompt(const Tokenizer& tokenizer, const ChatTemplateInput& input);

/// kTooLong when the prompt leaves no room for one token of an answer; both numbers are in the message.
Result<void> check_prompt_length(size_t prompt_tokens, uint32_t context);

}  // namespace lily
