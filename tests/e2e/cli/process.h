// Runs the built program: with pipes and an optional signal or early close, or on a pseudo-terminal.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lily::test {

struct Launch {
  std::vector<std::string> args = {};
  std::string input = {};
  bool keep_input_open = false;                 // standard input never ends
  std::map<std::string, std::string> env = {};  // over the inherited environment; LILY_MODEL is removed
  size_t close_output_after = SIZE_MAX;         // closes the reading end of standard output after this many bytes
  std::function<int(std::string_view out)> signal_when =
      {};  // asked after every output and every few ms; a signal, or 0
  int timeout_seconds = 240;
};

struct Outcome {
  int exit = -1;  // 128 + signal for a program that a signal ended
  bool signalled = false;
  bool timed_out = false;
  std::string out;
  std::string err;
};

Outcome run_lily(const Launch& launch);
inline Outcome run_lily(std::vector<std::string> args, std::string input = {}) {
  return run_lily(Launch{.args = std::move(args), .input = std::move(input)});
}

/// The program on a terminal of its own, 80 columns wide.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& args, const std::map<std::string, std::string>& env = {});
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(std::string_view text);
  /// Waits until `text` appears in what came after the last match; false after a minute, or when the program ended.
  bool expect(std::string_view text);
  /// Waits for the chat's prompt, and for the editor behind it to listen.
  bool expect_prompt(std::string_view prompt = "> ");
  /// Everything so far.
  const std::string& screen() const { return screen_; }
  void send_signal(int signal) const;
  /// Whether the terminal echoes and edits lines, as a shell needs it.
  bool is_cooked() const;
  /// Waits for the end: exit status, or 128 + signal; -1 after a minute.
  int wait();

 private:
  bool read_some(int timeout_ms);
  pid_t child_ = -1;
  int master_ = -1;
  int slave_ = -1;  // kept open, so that the mode can be read after the end
  bool ended_ = false;
  std::string screen_;
  size_t matched_ = 0;
};

/// A folder of this test's own, empty.
std::string fresh_folder(const std::string& name);
void write_file(const std::string& path, std::string_view text);
std::string read_whole(const std::string& path);

}  // namespace lily::test
