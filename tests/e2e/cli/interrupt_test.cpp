// Ctrl-C and closed pipes at every moment, and the state the terminal is left in.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>

#include "tests/e2e/cli/process.h"

namespace lily::test {
namespace {

using Clock = std::chrono::steady_clock;

const std::vector<std::string>& long_run() {
  static const std::vector<std::string> args = {"run",          "--raw",  "-p", "Once upon a time",
                                                "--ignore-eos", "--seed", "1"};
  return args;
}

std::string long_text(size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "Once upon a time there was a king. ";
  return text;
}

TEST(ClosedPipe, EndsTheProgramQuietly) {
  Launch launch{.args = long_run(), .input = {}};
  launch.close_output_after = 10;
  const Outcome outcome = run_lily(launch);
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_FALSE(outcome.signalled);
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_EQ(outcome.err.find("error"), std::string::npos) << outcome.err;
}

TEST(ClosedPipe, ThatIsClosedFromTheStartToo) {
  for (const char* command : {"--help", "--version"}) {
    Launch launch{.args = {command}, .input = {}};
    launch.close_output_after = 0;
    const Outcome outcome = run_lily(launch);
    EXPECT_EQ(outcome.exit, 0) << command;
    EXPECT_EQ(outcome.err, "") << command;
  }
}

TEST(FullDisk, IsAFailure) {
  const std::string err = fresh_folder("full") + "/err";
  const std::string command = std::string(LILY_BINARY) + " --help > /dev/full 2> " + err;
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_NE(read_whole(err).find("cannot write to standard output"), std::string::npos);
}

TEST(StandardError, ThatCannotBeWrittenChangesNothing) {
  const std::string lily = LILY_BINARY;
  for (const char* redirection : {"2>&-", "2>/dev/full"}) {
    const std::string answer = lily + " run -p hi -n 4 > /dev/null " + redirection;
    const int answered = std::system(answer.c_str());
    EXPECT_TRUE(WIFEXITED(answered) && WEXITSTATUS(answered) == 0) << redirection << " " << answered;
    const std::string refusal = lily + " run -m /nonexistent -p hi " + redirection;
    const int refused = std::system(refusal.c_str());
    EXPECT_TRUE(WIFEXITED(refused) && WEXITSTATUS(refused) == 2) << redirection << " " << refused;
  }
}

TEST(Interrupt, DuringDecodeKeepsThePartialText) {
  Launch launch{.args = long_run(), .input = {}};
  launch.signal_when = [](std::string_view out) { return out.size() >= 10 ? SIGINT : 0; };
  const Outcome outcome = run_lily(launch);
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_FALSE(outcome.signalled);
  EXPECT_EQ(outcome.exit, 130);
  EXPECT_GE(outcome.out.size(), 10U);
  EXPECT_TRUE(outcome.out.ends_with('\n'));
  EXPECT_NE(outcome.err.find("; cancelled\n"), std::string::npos) << outcome.err;
}

TEST(Interrupt, WhileReadingStandardInput) {
  Launch launch{.args = {"run", "-p", "-"}, .input = {}, .keep_input_open = true};
  const auto start = Clock::now();
  launch.signal_when = [&](std::string_view) {
    return Clock::now() - start > std::chrono::milliseconds(500) ? SIGINT : 0;
  };
  const Outcome outcome = run_lily(launch);
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.exit, 130);
  EXPECT_EQ(outcome.out, "");
}

// From the first instant on: loading, prefill of a long prompt, decode. Whenever it comes, the program ends with 130.
TEST(Interrupt, AtAnyMomentEndsWith130) {
  const std::string text = long_text(11000);
  for (const int delay_ms : {0, 5, 10, 20, 40, 80, 160, 320, 640, 1280}) {
    Launch launch{.args = {"run", "--raw", "-p", "-", "--ignore-eos"}, .input = text};
    const auto start = Clock::now();
    launch.signal_when = [&](std::string_view) {
      return Clock::now() - start >= std::chrono::milliseconds(delay_ms) ? SIGINT : 0;
    };
    const Outcome outcome = run_lily(launch);
    EXPECT_FALSE(outcome.timed_out) << delay_ms;
    const bool was_done = outcome.exit == 0 && outcome.err.find("; length\n") != std::string::npos;  // a fast machine
    EXPECT_TRUE(outcome.exit == 130 || (was_done && delay_ms > 0)) << delay_ms << ": " << outcome.exit << outcome.err;
    EXPECT_EQ(outcome.err.find("lily: error"), std::string::npos) << outcome.err;
  }
}

TEST(Interrupt, WithJsonStillGivesTheObject) {
  Launch launch{.args = {"run", "--raw", "-p", "-", "--ignore-eos", "--json"}, .input = "Once upon a time"};
  const auto start = Clock::now();
  launch.signal_when = [&](std::string_view) { return Clock::now() - start > std::chrono::seconds(2) ? SIGINT : 0; };
  const Outcome outcome = run_lily(launch);
  if (outcome.exit == 0) GTEST_SKIP() << "the answer was complete within two seconds";
  EXPECT_EQ(outcome.exit, 130);
  if (!outcome.out.empty()) {
    EXPECT_NE(outcome.out.find(R"("finish_reason":"cancelled")"), std::string::npos) << outcome.out.substr(0, 300);
  }
}

TEST(Terminate, EndsTheProgramWith143) {
  Launch launch{.args = long_run(), .input = {}};
  launch.signal_when = [](std::string_view out) { return out.size() >= 10 ? SIGTERM : 0; };
  const Outcome outcome = run_lily(launch);
  EXPECT_EQ(outcome.exit, 143);
}

TEST(RunOnATerminal, ReasoningIsDimAndCtrlCRestores) {
  Terminal terminal({"run", "-p", "What is 2 + 3?", "--ignore-eos"}, {{"TERM", "xterm"}, {"NO_COLOR", ""}});
  ASSERT_TRUE(terminal.expect("\033[2m")) << terminal.screen();
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 130);
  EXPECT_NE(terminal.screen().rfind("\033[0m"), std::string::npos);
  EXPECT_GT(terminal.screen().rfind("\033[0m"), terminal.screen().rfind("\033[2m"));
  EXPECT_TRUE(terminal.is_cooked());
}

TEST(RunOnATerminal, WithoutStylesThereAreNoEscapes) {
  Terminal terminal({"run", "-p", "What is 2 + 3?", "--no-think", "--max-tokens", "8", "-q"},
                    {{"TERM", "dumb"}, {"LANG", "C"}});
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_EQ(terminal.screen().find("\033[2m"), std::string::npos) << terminal.screen();
  EXPECT_FALSE(terminal.screen().empty());
}

TEST(RunOnATerminal, WithoutAPromptItSaysHowToGiveOne) {
  Terminal terminal({"run"});
  EXPECT_EQ(terminal.wait(), 2);
  EXPECT_NE(terminal.screen().find("no prompt: give -p TEXT"), std::string::npos) << terminal.screen();
}

}  // namespace
}  // namespace lily::test
