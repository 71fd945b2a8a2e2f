// The chat, on a terminal and from a pipe.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/cli/process.h"

namespace lily::test {
namespace {

using nlohmann::ordered_json;

class ChatOnATerminal : public testing::Test {
 protected:
  std::map<std::string, std::string> env() const {
    return {{"TERM", "xterm"}, {"NO_COLOR", ""}, {"XDG_STATE_HOME", folder}, {"LC_ALL", "C.UTF-8"}};
  }
  std::string folder = fresh_folder("chat");
};

const std::vector<std::string>& short_chat() {
  static const std::vector<std::string> args = {"chat", "--no-think", "-t", "0", "--max-tokens", "30"};
  return args;
}

TEST_F(ChatOnATerminal, HelpStatsThinkAndUnknownCommands) {
  Terminal terminal(short_chat(), env());
  ASSERT_TRUE(terminal.expect("/help lists the commands")) << terminal.screen();
  ASSERT_TRUE(terminal.expect_prompt());
  terminal.type("/help\n");
  EXPECT_TRUE(terminal.expect("/save FILE")) << terminal.screen();
  EXPECT_TRUE(terminal.expect_prompt());
  terminal.type("/stats\n");
  EXPECT_TRUE(terminal.expect("0 messages, 0 of 4096 tokens")) << terminal.screen();
  terminal.type("/think\n");
  EXPECT_TRUE(terminal.expect("[thinking is on]")) << terminal.screen();
  terminal.type("/think off\n");
  EXPECT_TRUE(terminal.expect("[thinking is off]")) << terminal.screen();
  terminal.type("/bogus\n");
  EXPECT_TRUE(terminal.expect("there is no command /bogus")) << terminal.screen();
  terminal.type("/system Be kind.\n");
  EXPECT_TRUE(terminal.expect("[system message: Be kind.]")) << terminal.screen();
  terminal.type("/system -\n");
  EXPECT_TRUE(terminal.expect("[no system message]")) << terminal.screen();
  ASSERT_TRUE(terminal.expect_prompt()) << terminal.screen();
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait(), 0) << terminal.screen();
  EXPECT_TRUE(terminal.is_cooked());
}

TEST_F(ChatOnATerminal, AnswersSavesResetsAndLoads) {
  const std::string file = folder + "/talk.json";
  Terminal terminal(short_chat(), env());
  ASSERT_TRUE(terminal.expect_prompt());
  terminal.type("My name is Anna.\n");
  ASSERT_TRUE(terminal.expect("\r\n")) << terminal.screen();
  ASSERT_TRUE(terminal.expect_prompt()) << terminal.screen();
  terminal.type("/save " + file + "\n");
  ASSERT_TRUE(terminal.expect("[saved 2 messages")) << terminal.screen();
  terminal.type("/reset\n");
  ASSERT_TRUE(terminal.expect("[the conversation is empty]")) << terminal.screen();
  terminal.type("/load " + file + "\n");
  ASSERT_TRUE(terminal.expect("[loaded 2 messages")) << terminal.screen();
  terminal.type("/load /nonexistent\n");
  EXPECT_TRUE(terminal.expect("lily: error: ")) << terminal.screen();
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.wait(), 0);
  const ordered_json saved = ordered_json::parse(read_whole(file), nullptr, false);
  ASSERT_TRUE(saved.is_object()) << read_whole(file);
  EXPECT_EQ(saved["messages"][0]["content"], "My name is Anna.");
  EXPECT_EQ(saved["messages"][1]["role"], "assistant");
  EXPECT_FALSE(saved["messages"][1]["content"].get<std::string>().empty());
  EXPECT_EQ(saved["settings"]["thinking"], false);
}

TEST_F(ChatOnATerminal, CtrlCStopsTheAnswerNotTheProgram) {
  Terminal terminal({"chat", "--logit-bias", "6069=-100", "--logit-bias", "6067=-100"}, env());  // never ends by itself
  ASSERT_TRUE(terminal.expect_prompt());
  terminal.type("Tell me a story.\n");
  ASSERT_TRUE(terminal.expect("\033[2m")) << terminal.screen();
  terminal.send_signal(SIGINT);
  ASSERT_TRUE(terminal.expect("[stopped]")) << terminal.screen();
  ASSERT_TRUE(terminal.expect_prompt()) << terminal.screen();
  terminal.type("/stats\n");
  EXPECT_TRUE(terminal.expect("2 messages")) << terminal.screen();
  EXPECT_TRUE(terminal.expect("cancelled")) << terminal.screen();
  ASSERT_TRUE(terminal.expect_prompt()) << terminal.screen();
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_TRUE(terminal.is_cooked());
}

TEST_F(ChatOnATerminal, CtrlCAtThePromptClearsTheLine) {
  Terminal terminal(short_chat(), env());
  ASSERT_TRUE(terminal.expect_prompt());
  terminal.type("/bogus");
  ASSERT_TRUE(terminal.expect("/bogus")) << terminal.screen();
  terminal.type("\x03");
  ASSERT_TRUE(terminal.expect_prompt()) << terminal.screen();
  terminal.type("/stats\n");
  EXPECT_TRUE(terminal.expect("0 messages")) << terminal.screen();
  EXPECT_EQ(terminal.screen().find("there is no command"), std::string::npos) << terminal.screen();
  ASSERT_TRUE(terminal.expect_prompt()) << terminal.screen();
  terminal.type("\x03");
  ASSERT_TRUE(terminal.expect_prompt()) << terminal.screen();
  EXPECT_FALSE(terminal.is_cooked());  // editing goes on
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.wait(), 0) << terminal.screen();
  EXPECT_TRUE(terminal.is_cooked());
}

TEST_F(ChatOnATerminal, SeveralLinesMakeOneMessageAndHistoryIsKept) {
  const std::string file = folder + "/lines.json";
  {
    Terminal terminal(short_chat(), env());
    ASSERT_TRUE(terminal.expect_prompt());
    terminal.type("one\\\n");
    ASSERT_TRUE(terminal.expect_prompt(". ")) << terminal.screen();
    terminal.type("zwö\n");
    ASSERT_TRUE(terminal.expect_prompt()) << terminal.screen();
    terminal.type("/save " + file + "\n");
    ASSERT_TRUE(terminal.expect("[saved 2 messages")) << terminal.screen();
    ASSERT_TRUE(terminal.expect_prompt()) << terminal.screen();
    terminal.type("\x04");
    EXPECT_EQ(terminal.wait(), 0);
  }
  EXPECT_EQ(ordered_json::parse(read_whole(file))["messages"][0]["content"], "one\nzwö");
  EXPECT_TRUE(std::filesystem::exists(folder + "/lily/history"));
  Terminal again(short_chat(), env());
  ASSERT_TRUE(again.expect_prompt());
  again.type("\x10");  // Ctrl-P: the line before
  EXPECT_TRUE(again.expect("/save " + file)) << again.screen();
  again.type("\x03");
  ASSERT_TRUE(again.expect_prompt()) << again.screen();
  again.type("\x04");
  EXPECT_EQ(again.wait(), 0);
}

TEST_F(ChatOnATerminal, TerminationRestoresTheTerminal) {
  Terminal terminal(short_chat(), env());
  ASSERT_TRUE(terminal.expect_prompt());
  terminal.type("abc");
  ASSERT_TRUE(terminal.expect("abc"));
  terminal.send_signal(SIGTERM);
  EXPECT_EQ(terminal.wait(), 143);
  EXPECT_TRUE(terminal.is_cooked());
}

TEST(ChatFromAPipe, LinesAreMessagesAndAnswersAreOutput) {
  const std::string file = fresh_folder("chat_pipe") + "/talk.json";
  const Outcome outcome = run_lily(short_chat(), "Hello!\n/stats\n/save " + file + "\nGoodbye!");
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out.find("> "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("2 messages"), std::string::npos) << outcome.out;
  EXPECT_EQ(ordered_json::parse(read_whole(file))["messages"].size(), 2U);
}

TEST(ChatFromAPipe, AnEmptyInputEndsAtOnce) {
  const Outcome outcome = run_lily(short_chat(), "");
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_EQ(outcome.out, "");
}

TEST(ChatFromAPipe, AMessageThatDoesNotFitIsNotSaid) {
  std::string text;
  while (text.size() < 50000) text += "Once upon a time there was a king. ";
  const Outcome outcome = run_lily(short_chat(), text + "\n/stats\n");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_NE(outcome.err.find("the context holds 4096"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("0 messages"), std::string::npos) << outcome.out;
}

TEST(ChatFromAPipe, OptionsOutOfRangeAreRefusedAtTheStart) {
  for (const auto& [option, value] : {std::pair("--temperature", "5"), std::pair("-n", "0"), std::pair("--stop", "")}) {
    const Outcome outcome = run_lily({"chat", option, value}, "/help\n");
    EXPECT_EQ(outcome.exit, 2) << option;
    EXPECT_EQ(outcome.out, "") << option;
    EXPECT_TRUE(outcome.err.starts_with("lily: error: ")) << outcome.err;
  }
}

TEST(ChatFromAPipe, ALineThatIsTooLongIsOneErrorAndLeftOut) {
  const Outcome outcome = run_lily({"chat"}, std::string((size_t{16} << 20) * 5 / 2, 'a') + "\n/stats\n");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_EQ(outcome.err, "lily: error: a line of the input is longer than 16 MB; it was left out\n");
  EXPECT_NE(outcome.out.find("0 messages"), std::string::npos) << outcome.out;
}

TEST_F(ChatOnATerminal, AFileThatIsNoHistoryIsLeftAlone) {
  const std::string file = fresh_folder("chat_no_history") + "/notes";
  write_file(file, "precious\n");
  Terminal terminal({"chat", "--history", file}, env());
  ASSERT_TRUE(terminal.expect("is no history"));
  ASSERT_TRUE(terminal.expect_prompt());
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_EQ(read_whole(file), "precious\n");
}

TEST_F(ChatOnATerminal, QuitRestoresTheTerminal) {
  Terminal terminal({"chat"}, env());
  ASSERT_TRUE(terminal.expect_prompt());
  terminal.send_signal(SIGWINCH);
  terminal.send_signal(SIGTSTP);  // a session leader cannot be stopped: it goes on at once
  terminal.type("abc");
  ASSERT_TRUE(terminal.expect("abc"));
  terminal.send_signal(SIGQUIT);
  EXPECT_EQ(terminal.wait(), 128 + SIGQUIT);
  EXPECT_TRUE(terminal.is_cooked());
}

TEST(ChatFromAPipe, OptionsWinOverALoadedConversation) {
  const std::string folder = fresh_folder("chat_load_options");
  write_file(
      folder + "/a.json",
      R"({"format":"lily-transcript","settings":{"thinking":true},"messages":[{"role":"system","content":"old"}]})");
  const Outcome outcome =
      run_lily({"chat", "--load", folder + "/a.json", "--no-think", "--system", "new"}, "/system\n/stats\n");
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("[system message: new]"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("thinking off"), std::string::npos) << outcome.out;
}

TEST(ChatFromAPipe, AConversationThatCannotGoOnIsNotLoaded) {
  const std::string folder = fresh_folder("chat_load_broken");
  write_file(folder + "/role.json", R"([{"role":"user","content":"a"},{"role":"wizard","content":"b"}])");
  write_file(folder + "/image.json",
             R"([{"role":"user","content":"a"},{"role":"user","content":[{"type":"image_url","image_url":"x"}]}])");
  const Outcome outcome =
      run_lily({"chat"}, "/load " + folder + "/role.json\n/load " + folder + "/image.json\n/stats\n");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_NE(outcome.err.find("role.json: messages[1]: Unexpected message role."), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("image.json: messages[1]: the content has a part of type image"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find("0 messages"), std::string::npos) << outcome.out;
}

TEST(ChatFromAPipe, TheSecondTurnReadsOnlyWhatIsNew) {
  const Outcome outcome = run_lily(short_chat(), "Hello!\nHello again!\n/stats\n");
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(" kept)"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace lily::test
