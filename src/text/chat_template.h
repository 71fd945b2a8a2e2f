// The chat template of Qwen3.6 (and Qwen3.5 where it differs), rendered natively and equal to the published Jinja file
// byte for byte. Repairing what clients send (developer roles, arguments as strings, late system messages) is
// normalize_messages.h; turning segments into token ids is the caller's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json_text.h"

namespace lily {

/// Differences of Qwen3.5: preserve_thinking is not known, and scalar tool arguments are written the Python way (True,
/// None).
enum class TemplateVersion { kQwen36, kQwen35 };

/// A stretch of the prompt. `control` segments are single added tokens that the template itself places; everything
/// else, also when it spells such a token, is text and must be tokenized with added tokens forbidden. Two text segments
/// never follow each other, so the tokenizer sees all text between two control tokens as one string.
struct PromptSegment {
  std::string text;
  bool control = false;
};

struct ChatTemplateInput {
  const ordered_json& messages;  // list of {role, content, reasoning_content?, tool_calls?}
  const ordered_json* tools =
      nullptr;  // list of tool objects, printed as they are; anything but a non-empty list is none
  bool add_generation_prompt = true;
  bool enable_thinking = true;
  bool preserve_thinking = false;  // keep the reasoning of turns before the last user message
  bool add_vision_id = false;      // "Picture 1: " before images
  /// Leaves the turn of a last assistant message open, without the end token and without a generation prompt, so that
  /// the model goes on with it. The think block is closed then: output starts as content. Without effect otherwise.
  bool continue_final_assistant = false;
  TemplateVersion version = TemplateVersion::kQwen36;
};

/// Renders the prompt. Failures carry the template's own messages where it raises them.
Result<std::vector<PromptSegment>> render_chat(const ChatTemplateInput& input);

/// True when the model's first token after this prompt belongs to its reasoning.
bool starts_in_reasoning(const ChatTemplateInput& input);

/// The prompt as one string, as the official template renders it.
std::string joined(const std::vector<PromptSegment>& segments);

/// The content of a message as the template prints it, not trimmed: a string, the texts of a list of parts, or nothing.
/// Media in a system message, unknown parts and other types are Failures with the template's messages.
Result<std::string> content_text(const ordered_json& content, bool is_system);

/// Which published template a chat_template.jinja is.
struct TemplateIdentity {
  std::optional<TemplateVersion> version;  // none: neither; prompts are rendered as Qwen3.6's
  std::string warning;                     // one sentence for the log, empty for a published template
};
TemplateIdentity template_version_for(std::string_view file_text);

}  // namespace lily
