#include "app/transcript.h"

#include <fmt/chrono.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"
#include "text/normalize_messages.h"

namespace lily {
namespace {

constexpr const char* kFormat = "lily-transcript";
constexpr size_t kMaxTranscriptBytes = size_t{256} << 20;

std::string now_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

bool flag(const ordered_json& settings, const char* key, bool otherwise) {
  return settings.is_object() && settings.contains(key) && settings[key].is_boolean() ? settings[key].get<bool>()
                                                                                      : otherwise;
}

/// Whether the file says that it is one of ours: nothing else is overwritten, not even a list of messages.
bool is_transcript_file(const std::filesystem::path& file) {
  try {
    const Result<ordered_json> value = parse_json(read_file(file, kMaxTranscriptBytes));
    return value && value.value().is_object() && value.value().contains("format") && value.value()["format"] == kFormat;
  } catch (const Error&) {
    return false;
  }
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

std::string transcript_text(const Transcript& transcript, const std::string& saved) {
  ordered_json head = ordered_json::object();
  head["format"] = kFormat;
  head["version"] = 1;
  head["model"] = transcript.model;
  head["saved"] = saved;
  head["settings"] = {{"thinking", transcript.thinking}, {"preserve_thinking", transcript.preserve_thinking}};
  std::string text = compact_json(head);
  text.pop_back();  // the closing brace
  text += ",\n\"messages\":[";
  for (size_t i = 0; i < transcript.messages.size(); ++i) {
    text += (i == 0 ? "\n" : ",\n") + compact_json(transcript.messages[i]);
  }
  return text + "\n]}\n";
}

Result<Transcript> parse_transcript(std::string_view text) {
  Result<ordered_json> parsed = parse_json(text);
  if (!parsed) return parsed.failure();
  ordered_json value = std::move(parsed).value();
  Transcript transcript;
  if (value.is_object()) {
    if (!value.contains("messages"))
      return invalid("expected a list of messages, or an object with one as \"messages\"");
    if (value.contains("settings")) {
      transcript.thinking = flag(value["settings"], "thinking", true);
      transcript.preserve_thinking = flag(value["settings"], "preserve_thinking", true);
    }
    if (value.contains("model") && value["model"].is_string()) transcript.model = value["model"].get<std::string>();
    value = ordered_json(value["messages"]);
  }
  Result<ordered_json> messages = normalize_messages(std::move(value));
  if (!messages) return messages.failure();
  transcript.messages = std::move(messages).value();
  for (const ordered_json& message : transcript.messages) {
    if (!message.contains("role") || !message["role"].is_string()) return invalid("a message has no role");
  }
  return transcript;
}

Result<void> save_transcript(const Transcript& transcript, const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::exists(file, error)) {
    if (!is_transcript_file(file)) return invalid("{} exists and is no transcript; nothing was written", file.string());
  }
  std::string fresh = file.string() + ".XXXXXX";
  const int descriptor = mkstemp(fresh.data());  // a name of its own, mode 0600
  if (descriptor < 0) return invalid("{} cannot be written: {}", file.string(), std::strerror(errno));
  const bool written = write_all(descriptor, transcript_text(transcript, now_text()));
  const int write_error = errno;
  if (close(descriptor) != 0 || !written) {
    std::filesystem::remove(fresh, error);
    return invalid("{} cannot be written: {}", file.string(), std::strerror(written ? errno : write_error));
  }
  std::filesystem::rename(fresh, file, error);
  if (error) {
    std::error_code ignored;
    std::filesystem::remove(fresh, ignored);
    return invalid("{} cannot be written: {}", file.string(), error.message());
  }
  return {};
}

Result<Transcript> load_transcript(const std::filesystem::path& file) {
  std::string text;
  try {
    text = read_file(file, kMaxTranscriptBytes);
  } catch (const Error& error) {
    return invalid("{}", error.what());
  }
  Result<Transcript> transcript = parse_transcript(text);
  if (!transcript) return invalid("{}: {}", file.string(), transcript.failure().message);
  return transcript;
}

}  // namespace lily
