// What a line typed into the chat means: a message, part of a longer message, or a command.
#pragma once

#include <string>
#include <string_view>

namespace lily {

struct ChatInput {
  enum class Kind { kMessage, kHelp, kReset, kThink, kSystem, kSave, kLoad, kStats, kQuit, kUnknown };
  Kind kind = Kind::kMessage;
  std::string text;  // the message, the command's argument, or the unknown command's name
};

/// A slash and a word of letters is a command; two slashes start a message with one. Anything else is a message.
ChatInput parse_chat_input(std::string_view input);

/// Joins lines to one input: a line that ends with a backslash goes on in the next one, and a line of three quotes
/// starts a block that the next such line ends.
class LineJoiner {
 public:
  /// Takes a line; true when the input is complete.
  bool add(std::string_view line);
  /// Whether more lines are needed.
  bool open() const { return open_; }
  /// The input; the joiner is empty again.
  std::string take();

 private:
  std::string text_;
  bool open_ = false;
  bool in_block_ = false;
};

/// The commands and keys, for /help.
std::string_view chat_help();

}  // namespace lily
