#include "app/chat_input.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lily {
namespace {

constexpr std::string_view kQuotes = R"(""")";
constexpr std::string_view kSpace = " \t";

constexpr std::array<std::pair<std::string_view, ChatInput::Kind>, 9> kCommands{{
    {"help", ChatInput::Kind::kHelp},
    {"reset", ChatInput::Kind::kReset},
    {"think", ChatInput::Kind::kThink},
    {"system", ChatInput::Kind::kSystem},
    {"save", ChatInput::Kind::kSave},
    {"load", ChatInput::Kind::kLoad},
    {"stats", ChatInput::Kind::kStats},
    {"quit", ChatInput::Kind::kQuit},
    {"exit", ChatInput::Kind::kQuit},
}};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

ChatInput parse_chat_input(std::string_view input) {
  const std::string_view text = trimmed(input);
  if (text.starts_with("//")) return {.text = std::string(text.substr(1))};
  if (!text.starts_with('/')) return {.text = std::string(input)};
  const std::string_view word = text.substr(1, text.find_first_of(" \t\n") - 1);
  const bool letters =
      !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  if (!letters) return {.text = std::string(input)};  // a path, most likely
  for (const auto& [name, kind] : kCommands) {
    if (name == word) return {.kind = kind, .text = std::string(trimmed(text.substr(1 + word.size())))};
  }
  return {.kind = ChatInput::Kind::kUnknown, .text = std::string(word)};
}

bool LineJoiner::add(std::string_view line) {
  const bool quotes = trimmed(line) == kQuotes;
  if (!open_ && quotes) {
    open_ = in_block_ = true;
    return false;
  }
  if (in_block_) {
    if (quotes) {
      open_ = in_block_ = false;
      if (text_.ends_with('\n')) text_.pop_back();
      return true;
    }
    text_ += line;
    text_ += '\n';
    return false;
  }
  open_ = line.ends_with('\\');
  text_ += open_ ? line.substr(0, line.size() - 1) : line;
  if (open_) text_ += '\n';
  return !open_;
}

std::string LineJoiner::take() {
  open_ = in_block_ = false;
  return std::exchange(text_, {});
}

std::string_view chat_help() {
  return "/help            this list\n"
         "/reset           forget the conversation; the system message stays\n"
         "/think [on|off]  let the model reason before it answers\n"
         "/system [TEXT]   show or set the system message; - removes it\n"
         "/save FILE       write the conversation as JSON\n"
         "/load FILE       go on with a saved conversation\n"
         "/stats           context in use, speed of the last answer\n"
         "/quit            leave, as Ctrl-D does\n"
         "Ctrl-C stops an answer or clears the line. A line that ends with \\ goes on in the next one; a line of "
         "\"\"\"\n"
         "starts a block of lines that the next \"\"\" ends. // starts a message with a slash.\n";
}

}  // namespace lily
