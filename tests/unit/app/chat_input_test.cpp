#include "app/chat_input.h"

#include <gtest/gtest.h>

#include <vector>

namespace lily {
namespace {

using Kind = ChatInput::Kind;

void expect_input(std::string_view line, Kind kind, std::string_view text) {
  const ChatInput input = parse_chat_input(line);
  EXPECT_EQ(input.kind, kind) << line;
  EXPECT_EQ(input.text, text) << line;
}

TEST(ChatInput, CommandsAndTheirArguments) {
  expect_input("/help", Kind::kHelp, "");
  expect_input("  /reset ", Kind::kReset, "");
  expect_input("/think off", Kind::kThink, "off");
  expect_input("/system  You are a pirate. ", Kind::kSystem, "You are a pirate.");
  expect_input("/save my file.json", Kind::kSave, "my file.json");
  expect_input("/load x", Kind::kLoad, "x");
  expect_input("/stats", Kind::kStats, "");
  expect_input("/quit", Kind::kQuit, "");
  expect_input("/exit", Kind::kQuit, "");
}

TEST(ChatInput, UnknownCommandsAreNotMessages) {
  expect_input("/helf", Kind::kUnknown, "helf");
  expect_input("/helpme now", Kind::kUnknown, "helpme");
}

TEST(ChatInput, MessagesMayBeginWithASlash) {
  expect_input("hello /help", Kind::kMessage, "hello /help");
  expect_input("//help", Kind::kMessage, "/help");
  expect_input("/etc/passwd holds what?", Kind::kMessage, "/etc/passwd holds what?");
  expect_input("/", Kind::kMessage, "/");
  expect_input("  indented", Kind::kMessage, "  indented");
}

/// The inputs that the lines make; an unfinished one last, in brackets.
std::vector<std::string> joined(const std::vector<std::string>& lines) {
  LineJoiner joiner;
  std::vector<std::string> inputs;
  for (const std::string& line : lines) {
    if (joiner.add(line)) inputs.push_back(joiner.take());
  }
  if (joiner.open()) inputs.push_back("[" + joiner.take() + "]");
  return inputs;
}

using Inputs = std::vector<std::string>;

TEST(LineJoiner, ALineIsAnInput) {
  EXPECT_EQ(joined({"a", "", "b"}), (Inputs{"a", "", "b"}));
}

TEST(LineJoiner, ABackslashContinues) {
  EXPECT_EQ(joined({"a\\", "b\\", "c", "d"}), (Inputs{"a\nb\nc", "d"}));
  EXPECT_EQ(joined({"a\\"}), (Inputs{"[a\n]"}));
}

TEST(LineJoiner, QuotesHoldABlock) {
  EXPECT_EQ(joined({"\"\"\"", "a\\", "", "b", " \"\"\" ", "c"}), (Inputs{"a\\\n\nb", "c"}));
  EXPECT_EQ(joined({"\"\"\"", "\"\"\""}), (Inputs{""}));
  EXPECT_EQ(joined({"\"\"\"", "a"}), (Inputs{"[a\n]"}));
}

TEST(ChatHelp, NamesEveryCommand) {
  for (const char* command : {"/help", "/reset", "/think", "/system", "/save", "/load", "/stats", "/quit"}) {
    EXPECT_NE(chat_help().find(command), std::string_view::npos) << command;
  }
}

}  // namespace
}  // namespace lily
