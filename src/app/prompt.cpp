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
  return read_list(path, "tools");
}

ordered_json read_messages(const std::string& path) {
  return read_list(path, "messages");
}

Result<Prompt> make_prompt(const Tokenizer& tokenizer, const ChatTemplateInput& input) {
  Result<std::vector<PromptSegment>> segments = render_chat(input);
  if (!segments) return segments.failure();
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
