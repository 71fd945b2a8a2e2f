#include "text/chat_template.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/sha256.h"
#include "text/python_text.h"

namespace lily {
namespace {

constexpr std::string_view kToolsHead = "system\n# Tools\n\nYou have access to the following functions:\n\n<tools>";
constexpr std::string_view kToolsFormat =
    "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n";
constexpr std::string_view kToolsExample =
    "\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n"
    "</parameter>\n</function>\n";
constexpr std::string_view kToolsReminder =
    "\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: an inner <function=...></function> "
    "block "
    "must be nested within ";
constexpr std::string_view kToolsReminderEnd =
    " XML tags\n- Required parameters MUST be specified\n- You may provide optional reasoning for your function call "
    "in "
    "natural language BEFORE the function call, but NOT after\n- If there is no function call available, answer the "
    "question "
    "like normal with your current knowledge and do not tell the user about function calls\n</IMPORTANT>";

constexpr std::string_view kToolResponseOpen = "<tool_response>";
constexpr std::string_view kToolResponseClose = "</tool_response>";
constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";

/// Text with the places of the media tokens in it, so that it can be trimmed and cut like the template's plain string.
struct MarkedText {
  std::string text;
  std::vector<std::pair<size_t, size_t>> controls;  // [begin, end) of each control token, ascending
};

/// A view of part of a MarkedText.
struct MarkedView {
  const MarkedText* whole;
  std::string_view text;

  MarkedView part(std::string_view of_text) const { return {whole, of_text}; }
  size_t offset() const { return static_cast<size_t>(text.data() - whole->text.data()); }
};

std::string_view strip_newlines_front(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text;
}

std::string_view strip_newlines_back(std::string_view text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);  // npos + 1 is 0
}

class SegmentWriter {
 public:
  void text(std::string_view text) {
    if (text.empty()) return;
    if (segments_.empty() || segments_.back().control) segments_.push_back({});
    segments_.back().text += text;
  }
  void control(std::string_view token) { segments_.push_back({.text = std::string(token), .control = true}); }
  void marked(const MarkedView& view) {
    const size_t begin = view.offset();
    size_t at = begin;
    for (const auto& [from, to] : view.whole->controls) {
      if (from < begin || to > begin + view.text.size()) continue;
      text(std::string_view(view.whole->text).substr(at, from - at));
      control(std::string_view(view.whole->text).substr(from, to - from));
      at = to;
    }
    text(view.text.substr(at - begin));
  }
  std::vector<PromptSegment> take() { return std::move(segments_); }

 private:
  std::vector<PromptSegment> segments_;
};

const ordered_json* member(const ordered_json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

bool is_string(const ordered_json* value, std::string_view text) {
  return value != nullptr && value->is_string() && value->get_ref<const std::string&>() == text;
}

/// Counts media over the whole chat, for add_vision_id.
struct MediaCount {
  bool number_them = false;
  size_t images = 0;
  size_t videos = 0;
};

void append_media(MarkedText& out, MediaCount& count, bool image) {
  const size_t number = image ? ++count.images : ++count.videos;
  if (count.number_them) out.text += fmt::format("{} {}: ", image ? "Picture" : "Video", number);
  for (const std::string_view token :
       {std::string_view("<|vision_start|>"), std::string_view(image ? "<|image_pad|>" : "<|video_pad|>"),
        std::string_view("<|vision_end|>")}) {
    out.controls.emplace_back(out.text.size(), out.text.size() + token.size());
    out.text += token;
  }
}

Result<MarkedText> render_content(const ordered_json* content, MediaCount& count, bool is_system) {
  MarkedText out;
  if (content == nullptr || content->is_null()) return out;
  if (content->is_string()) {
    out.text = content->get_ref<const std::string&>();
    return out;
  }
  if (!content->is_array()) return invalid("Unexpected content type.");
  for (const ordered_json& part : *content) {
    const ordered_json* type = member(part, "type");
    const ordered_json* text = member(part, "text");
    if (member(part, "image") != nullptr || member(part, "image_url") != nullptr || is_string(type, "image")) {
      if (is_system) return invalid("System message cannot contain images.");
      append_media(out, count, true);
    } else if (member(part, "video") != nullptr || is_string(type, "video")) {
      if (is_system) return invalid("System message cannot contain videos.");
      append_media(out, count, false);
    } else if (text == nullptr) {
      return invalid("Unexpected item type in content.");
    } else if (!text->is_string()) {
      return invalid("content: a text part must hold a string, found {}", text->type_name());
    } else {
      out.text += text->get_ref<const std::string&>();
    }
  }
  return out;
}

/// An assistant message's reasoning and visible text.
struct AssistantText {
  MarkedView reasoning;
  MarkedView visible;
};

AssistantText split_reasoning(const ordered_json& message, const MarkedView& content, MarkedText& reasoning_holder) {
  const ordered_json* reasoning = member(message, "reasoning_content");
  if (reasoning != nullptr && reasoning->is_string()) {
    reasoning_holder.text = reasoning->get_ref<const std::string&>();
    return {{&reasoning_holder, python_strip(reasoning_holder.text)}, content};
  }
  const size_t first_close = content.text.find(kThinkClose);
  if (first_close == std::string_view::npos) return {content.part(content.text.substr(0, 0)), content};
  std::string_view thought = strip_newlines_back(content.text.substr(0, first_close));
  const size_t last_open = thought.rfind(kThinkOpen);
  if (last_open != std::string_view::npos) thought.remove_prefix(last_open + kThinkOpen.size());
  const size_t after_close = content.text.rfind(kThinkClose) + kThinkClose.size();
  return {content.part(python_strip(strip_newlines_front(thought))),
          content.part(strip_newlines_front(content.text.substr(after_close)))};
}

/// A scalar the way Python's str() prints it; containers as JSON.
std::string python_string(const ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  return python_json(value);
}

class ChatRenderer {
 public:
  explicit ChatRenderer(const ChatTemplateInput& input) : input_(input) { media_.number_them = input.add_vision_id; }

  Result<std::vector<PromptSegment>> run() {
    if (Result<void> done = check_shape(); !done) return done.failure();
    if (Result<void> done = render_system(); !done) return done.failure();
    if (Result<void> done = find_last_query(); !done) return done.failure();
    for (size_t i = 0; i < messages().size(); ++i) {
      if (Result<void> done = render_message(i); !done) return done.failure();
    }
    if (input_.add_generation_prompt && !left_open_) render_generation_prompt();
    return out_.take();
  }

 private:
  const ordered_json& messages() const { return input_.messages; }
  bool has_role(size_t index, std::string_view role) const {
    return is_string(member(messages()[index], "role"), role);
  }

  Result<void> check_shape() const {
    if (!messages().is_array()) return invalid("messages must be a list, found {}", messages().type_name());
    if (messages().empty()) return invalid("No messages provided.");
    for (size_t i = 0; i < messages().size(); ++i) {
      if (messages()[i].is_object()) continue;
      return invalid("messages[{}] must be an object, found {}", i, messages()[i].type_name());
    }
    return {};
  }

  Result<void> render_system() {
    MediaCount uncounted;
    MarkedText content;
    const bool given = has_role(0, "system");
    if (given) {
      Result<MarkedText> rendered = render_content(member(messages()[0], "content"), uncounted, true);
      if (!rendered) return rendered.failure();
      content = std::move(rendered).value();
    }
    const std::string_view system = python_strip(content.text);
    const bool tools = input_.tools != nullptr && input_.tools->is_array() && !input_.tools->empty();
    if (!given && !tools) return {};
    out_.control("<|im_start|>");
    if (tools) {
      render_tools();
      if (!system.empty()) out_.text("\n\n");
    } else {
      out_.text("system\n");
    }
    out_.text(system);
    end_turn();
    return {};
  }

  void render_tools() {
    out_.text(kToolsHead);
    for (const ordered_json& tool : *input_.tools) {
      out_.text("\n");
      out_.text(python_json(tool));
    }
    out_.text(kToolsFormat);
    out_.control("<tool_call>");
    out_.text(kToolsExample);
    out_.control("</tool_call>");
    out_.text(kToolsReminder);
    out_.control("<tool_call>");
    out_.control("</tool_call>");
    out_.text(kToolsReminderEnd);
  }

  /// The last user message that is not a tool result in disguise; reasoning after it is kept.
  Result<void> find_last_query() {
    MediaCount uncounted;
    for (size_t i = messages().size(); i-- > 0;) {
      if (!has_role(i, "user")) continue;
      Result<MarkedText> content = render_content(member(messages()[i], "content"), uncounted, false);
      if (!content) return content.failure();
      const std::string_view text = python_strip(content.value().text);
      if (text.starts_with(kToolResponseOpen) && text.ends_with(kToolResponseClose)) continue;
      last_query_ = i;
      return {};
    }
    return invalid("No user query found in messages.");
  }

  Result<void> render_message(size_t index) {
    const ordered_json& message = messages()[index];
    Result<MarkedText> rendered = render_content(member(message, "content"), media_, false);
    if (!rendered) return rendered.failure();
    const MarkedText& whole = rendered.value();
    const MarkedView content{&whole, python_strip(whole.text)};
    if (has_role(index, "system")) {
      if (index != 0) return invalid("System message must be at the beginning.");
      return {};
    }
    if (has_role(index, "user")) {
      out_.control("<|im_start|>");
      out_.text("user\n");
      out_.marked(content);
      end_turn();
      return {};
    }
    if (has_role(index, "assistant")) return render_assistant(index, content);
    if (has_role(index, "tool")) {
      render_tool_result(index, content);
      return {};
    }
    return invalid("Unexpected message role.");
  }

  Result<void> render_assistant(size_t index, const MarkedView& content) {
    const ordered_json& message = messages()[index];
    MarkedText reasoning_holder;
    const AssistantText turn = split_reasoning(message, content, reasoning_holder);
    const bool preserve = input_.preserve_thinking && input_.version == TemplateVersion::kQwen36;
    out_.control("<|im_start|>");
    out_.text("assistant\n");
    if (index > last_query_ || preserve) {
      out_.control(kThinkOpen);
      out_.text("\n");
      out_.marked(turn.reasoning);
      out_.text("\n");
      out_.control(kThinkClose);
      out_.text("\n\n");
    }
    out_.marked(turn.visible);
    const ordered_json* calls = member(message, "tool_calls");
    if (calls != nullptr && calls->is_array()) {
      std::string_view prefix = python_strip(turn.visible.text).empty() ? "" : "\n\n";
      for (size_t i = 0; i < calls->size(); ++i) {
        out_.text(prefix);
        prefix = "\n";
        const std::string where = fmt::format("messages[{}].tool_calls[{}]", index, i);
        if (Result<void> done = render_call((*calls)[i], where); !done) return done;
      }
    }
    left_open_ = input_.continue_final_assistant && index + 1 == messages().size();
    if (!left_open_) end_turn();
    return {};
  }

  Result<void> render_call(const ordered_json& entry, const std::string& where) {
    const ordered_json* function = member(entry, "function");
    const ordered_json& call = function != nullptr ? *function : entry;
    const ordered_json* name = member(call, "name");
    if (name == nullptr || !name->is_string()) return invalid("{}: the function name must be a string", where);
    out_.control("<tool_call>");
    out_.text("\n<function=");
    out_.text(name->get_ref<const std::string&>());
    out_.text(">\n");
    const ordered_json* arguments = member(call, "arguments");
    if (arguments != nullptr && !arguments->is_null()) {
      if (!arguments->is_object()) {
        return invalid("{}: arguments must be an object, found {}", where, arguments->type_name());
      }
      for (const auto& [key, value] : arguments->get_ref<const ordered_json::object_t&>()) {
        out_.text("<parameter=");
        out_.text(key);
        out_.text(">\n");
        out_.text(argument_text(value));
        out_.text("\n</parameter>\n");
      }
    }
    out_.text("</function>\n");
    out_.control("</tool_call>");
    return {};
  }

  std::string argument_text(const ordered_json& value) const {
    if (value.is_string()) return value.get<std::string>();
    return input_.version == TemplateVersion::kQwen35 ? python_string(value) : python_json(value);
  }

  /// Consecutive results share one user turn.
  void render_tool_result(size_t index, const MarkedView& content) {
    if (index > 0 && !has_role(index - 1, "tool")) {
      out_.control("<|im_start|>");
      out_.text("user");
    }
    out_.text("\n");
    out_.control(kToolResponseOpen);
    out_.text("\n");
    out_.marked(content);
    out_.text("\n");
    out_.control(kToolResponseClose);
    if (index + 1 == messages().size() || !has_role(index + 1, "tool")) end_turn();
  }

  void render_generation_prompt() {
    out_.control("<|im_start|>");
    out_.text("assistant\n");
    out_.control(kThinkOpen);
    if (input_.enable_thinking) {
      out_.text("\n");
    } else {
      out_.text("\n\n");
      out_.control(kThinkClose);
      out_.text("\n\n");
    }
  }

  void end_turn() {
    out_.control("<|im_end|>");
    out_.text("\n");
  }

  const ChatTemplateInput& input_;
  SegmentWriter out_;
  MediaCount media_;
  size_t last_query_ = 0;
  bool left_open_ = false;
};

}  // namespace

Result<std::vector<PromptSegment>> render_chat(const ChatTemplateInput& input) {
  return ChatRenderer(input).run();
}

bool starts_in_reasoning(const ChatTemplateInput& input) {
  const ordered_json& messages = input.messages;
  const bool continues = input.continue_final_assistant && messages.is_array() && !messages.empty() &&
                         is_string(member(messages.back(), "role"), "assistant");
  return input.add_generation_prompt && input.enable_thinking && !continues;
}

std::string joined(const std::vector<PromptSegment>& segments) {
  std::string text;
  for (const PromptSegment& segment : segments) text += segment.text;
  return text;
}

Result<std::string> content_text(const ordered_json& content, bool is_system) {
  MediaCount count;
  Result<MarkedText> rendered = render_content(&content, count, is_system);
  if (!rendered) return rendered.failure();
  return std::move(rendered).value().text;
}

TemplateIdentity template_version_for(std::string_view file_text) {
  constexpr std::string_view kQwen36Hash = "e84f32a23fdda27689f868aa4a1a5621f41133e51a48d7f3efcbea2839574259";
  constexpr std::string_view kQwen35HashStart = "a4aee8afcf";  // with the length, enough to tell a published file
  constexpr size_t kQwen35Bytes = 7756;
  const std::string hash = sha256_hex(file_text);
  if (hash == kQwen36Hash) return {.version = TemplateVersion::kQwen36, .warning = {}};
  if (hash.starts_with(kQwen35HashStart) && file_text.size() == kQwen35Bytes) {
    return {.version = TemplateVersion::kQwen35, .warning = {}};
  }
  std::string warning = fmt::format(
      "chat_template.jinja ({} bytes, sha256 {}) is neither the published Qwen3.6 nor the Qwen3.5 template; prompts "
      "are "
      "rendered as Qwen3.6 does, so any rules of its own have no effect",
      file_text.size(), hash);
  if (file_text.find("preserve_thinking") == std::string_view::npos) {
    warning +=
        ": it has no preserve_thinking switch, which works here all the same, and may write scalar tool arguments the "
        "Python "
        "way (True), which are written as JSON (true) here";
  }
  return {.version = std::nullopt, .warning = std::move(warning)};
}

}  // namespace lily
