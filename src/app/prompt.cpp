#include "app/prompt.h"

#include <system_error>
#include <utility>

#include "app/exit_status.h"
#include "app/standard_streams.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "text/prompt_encoder.h"

namespace lily {
namespace {

constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

ordered_json read_list(const std::string& path, const char* key) {
  const char* where = path == "-" ? "standard input" : path.c_str();
  Result<ordered_json> parsed = parse_json(read_input_file(path));
  if (!parsed) throw Error(ErrorCode::kUsage, "{}: {}", where, parsed.failure().message);
  ordered_json value = std::move(parsed).value();
  if (value.is_object() && value.contains(key)) value = ordered_json(value[key]);
  if (!value.is_array()) {
    throw Error(ErrorCode::kUsage, "{}: expected a list of {}, or an object with one as \"{}\"", where, key, key);
  }
  return value;
}

}  // namespace

TemplateVersion model_template(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "chat_template.jinja";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return TemplateVersion::kQwen36;
  const TemplateIdentity identity = template_version_for(read_file(file, kMaxTemplateBytes));
  if (!identity.warning.empty()) log_warning("{}", identity.warning);
  return identity.version.value_or(TemplateVersion::kQwen36);
}

ordered_json read_tools(const std::string& path) {
  ordered_json tools = read_list(path, "tools");
  for (size_t i = 0; i < tools.size(); ++i) {
    const ordered_json& tool = tools[i];
    const bool nested = tool.is_object() && tool.contains("function");
    const ordered_json& function = nested ? tool["function"] : tool;
    const bool named = function.is_object() && function.contains("name") && function["name"].is_string() &&
                       !function["name"].get_ref<const std::string&>().empty();
    if (!named) {
      throw Error(ErrorCode::kUsage, "{}: tools[{}]: expected an object with the name of a function, found {}",
                  path == "-" ? "standard input" : path, i,
                  function.is_object() ? "an object without one" : function.type_name());
    }
  }
  return tools;
}

ordered_json read_messages(const std::string& path) {
  return read_list(path, "messages");
}

Result<void> check_text_only(const ordered_json& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object() || !messages[i].contains("content")) continue;
    const ordered_json& content = messages[i]["content"];
    if (!content.is_array()) continue;
    for (const ordered_json& part : content) {
      for (const char* medium : {"image", "image_url", "video"}) {
        if (part.is_object() && (part.contains(medium) || (part.contains("type") && part["type"] == medium))) {
          return invalid("messages[{}]: the content has a part of type {}, expected text only", i, medium);
        }
      }
    }
  }
  return {};
}

Result<void> check_conversation(const ordered_json& messages, TemplateVersion version) {
  // A conversation may stand before its first question; the one asked here makes it complete.
  const auto failure_of = [&](size_t count) {
    ordered_json start = ordered_json::array();
    for (size_t i = 0; i < count; ++i) start.push_back(messages[i]);
    start.push_back({{"role", "user"}, {"content", "?"}});
    const Result<std::vector<PromptSegment>> segments = render_chat({.messages = start, .version = version});
    return segments ? std::string() : segments.failure().message;
  };
  const std::string failure = failure_of(messages.size());
  if (failure.empty()) return check_text_only(messages);
  size_t renders = 0;  // so many messages from the start do not fail this way, and `fails` do
  size_t fails = messages.size();
  while (fails - renders > 1) {
    const size_t middle = renders + (fails - renders) / 2;
    (failure_of(middle) == failure ? fails : renders) = middle;
  }
  return invalid("messages[{}]: {}", renders, failure);
}

Result<Prompt> make_prompt(const Tokenizer& tokenizer, const ChatTemplateInput& input) {
  Result<std::vector<PromptSegment>> segments = render_chat(input);
  if (!segments) return segments.failure();
  if (Result<void> text = check_text_only(input.messages); !text) return text.failure();
  Result<std::vector<TokenId>> ids = encode_prompt(tokenizer, segments.value());
  if (!ids) return ids.failure();
  return Prompt{.ids = std::move(ids).value(),
                .text = joined(segments.value()),
                .starts_in_reasoning = starts_in_reasoning(input)};
}

Result<void> check_prompt_length(size_t prompt_tokens, uint32_t context) {
  if (prompt_tokens < context) return {};
  return Failure{.kind = FailureKind::kTooLong,
                 .message = fmt::format("the prompt has {} tokens, but the context holds {}, answer included",
                                        prompt_tokens, context),
                 .param = {}};
}

}  // namespace lily
