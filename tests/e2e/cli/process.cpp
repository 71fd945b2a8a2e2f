#include "tests/e2e/cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <spawn.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace lily::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Strings and the null-terminated array of pointers to them that exec wants.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> strings) : strings_(std::move(strings)) {
    for (std::string& text : strings_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }

 private:
  std::vector<std::string> strings_;
  std::vector<char*> pointers_;
};

Arguments command(const std::vector<std::string>& args) {
  std::vector<std::string> all = {LILY_BINARY};
  all.insert(all.end(), args.begin(), args.end());
  return Arguments(std::move(all));
}

Arguments environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (name != "LILY_MODEL" && !changes.contains(name)) all.emplace_back(text);
  }
  for (const auto& [name, value] : changes) all.push_back(std::string(name).append("=").append(value));
  return Arguments(std::move(all));
}

struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(size_t index) {
    if (ends[index] >= 0) close(ends[index]);
    ends[index] = -1;
  }
  std::array<int, 2> ends{};
};

int status_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Reads what is there; false at the end of the stream.
bool drain(int descriptor, std::string& text) {
  std::array<char, 65536> buffer{};
  const ssize_t got = read(descriptor, buffer.data(), buffer.size());
  if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  return got > 0;
}

/// Whether the child has ended; it stays to be waited for.
bool has_exited(pid_t child) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
}

/// Feeds and reads the pipes until both outputs have ended, sending the signal when its time has come.
void converse(const Launch& launch, pid_t child, std::array<Pipe, 3>& pipes, Outcome& outcome) {
  auto& [in, out, err] = pipes;
  std::string_view left = launch.input;
  bool signal_sent = false;
  const auto deadline = Clock::now() + std::chrono::seconds(launch.timeout_seconds);
  if (left.empty() && !launch.keep_input_open) in.close_end(1);
  while (out.ends[0] >= 0 || err.ends[0] >= 0) {
    std::array<pollfd, 3> waits{{{.fd = out.ends[0], .events = POLLIN, .revents = 0},
                                 {.fd = err.ends[0], .events = POLLIN, .revents = 0},
                                 {.fd = left.empty() ? -1 : in.ends[1], .events = POLLOUT, .revents = 0}}};
    poll(waits.data(), waits.size(), 5);
    if (waits[0].revents != 0 && !drain(out.ends[0], outcome.out)) out.close_end(0);
    if (waits[1].revents != 0 && !drain(err.ends[0], outcome.err)) err.close_end(0);
    if (waits[2].revents != 0) {
      const ssize_t wrote = write(in.ends[1], left.data(), left.size());
      left.remove_prefix(wrote > 0 ? static_cast<size_t>(wrote) : left.size());
      if (left.empty() && !launch.keep_input_open) in.close_end(1);
    }
    if (outcome.out.size() >= launch.close_output_after) out.close_end(0);
    if (launch.signal_when && !signal_sent) {
      if (const int signal = launch.signal_when(outcome.out); signal != 0) {
        kill(child, signal);
        signal_sent = true;
      }
    }
    if (Clock::now() > deadline) {
      outcome.timed_out = true;
      kill(child, SIGKILL);
      return;
    }
  }
}

}  // namespace

Outcome run_lily(const Launch& launch) {
  static_cast<void>(signal(SIGPIPE, SIG_IGN));
  std::array<Pipe, 3> pipes;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes[0].ends[0], 0);
  posix_spawn_file_actions_adddup2(&actions, pipes[1].ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipes[2].ends[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int each : {SIGPIPE, SIGINT, SIGTERM}) sigaddset(&defaults, each);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  Arguments args = command(launch.args);
  Arguments env = environment(launch.env);
  pid_t child = -1;
  const int error = posix_spawn(&child, LILY_BINARY, &actions, &attributes, args.data(), env.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw std::runtime_error(std::string("cannot start " LILY_BINARY ": ") + std::strerror(error));
  pipes[0].close_end(0);
  pipes[1].close_end(1);
  pipes[2].close_end(1);
  Outcome outcome;
  converse(launch, child, pipes, outcome);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.exit = status_of(status);
  outcome.signalled = WIFSIGNALED(status);
  return outcome;
}

Terminal::Terminal(const std::vector<std::string>& args, const std::map<std::string, std::string>& env) {
  Arguments arguments = command(args);
  Arguments variables = environment(env);
  winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  if (openpty(&master_, &slave_, nullptr, nullptr, &size) != 0) throw std::runtime_error("openpty failed");
  fcntl(master_, F_SETFD, FD_CLOEXEC);
  child_ = fork();
  if (child_ == 0) {
    login_tty(slave_);
    execve(LILY_BINARY, arguments.data(), variables.data());
    _exit(127);
  }
}

Terminal::~Terminal() {
  if (!ended_) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  close(master_);
  close(slave_);
}

void Terminal::type(std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(master_, text.data(), text.size());
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
}

bool Terminal::read_some(int timeout_ms) {
  pollfd wait{.fd = master_, .events = POLLIN, .revents = 0};
  return poll(&wait, 1, timeout_ms) > 0 && drain(master_, screen_);
}

bool Terminal::expect(std::string_view text) {
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  while (true) {
    const size_t found = screen_.find(text, matched_);
    if (found != std::string::npos) {
      matched_ = found + text.size();
      return true;
    }
    if (Clock::now() > deadline) return false;
    if (!read_some(50) && has_exited(child_)) {
      while (read_some(0)) {
      }
      if (screen_.find(text, matched_) == std::string::npos) return false;
    }
  }
}

bool Terminal::expect_prompt(std::string_view prompt) {
  if (!expect(prompt)) return false;
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  while (is_cooked() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return !is_cooked();
}

void Terminal::send_signal(int signal) const {
  kill(child_, signal);
}

bool Terminal::is_cooked() const {
  termios mode{};
  return tcgetattr(slave_, &mode) == 0 && (mode.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO);
}

int Terminal::wait() {
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  int status = 0;
  while (waitpid(child_, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) return -1;
    read_some(20);
  }
  ended_ = true;
  while (read_some(0)) {
  }
  return status_of(status);
}

std::string fresh_folder(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("lily_e2e_" + std::to_string(getpid())) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder.string();
}

void write_file(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace lily::test
