#include "app/terminal.h"

#include <fmt/format.h>
#include <langinfo.h>
#include <pthread.h>
#include <sys/select.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "app/standard_streams.h"
#include "base/error.h"

namespace lily {
namespace {

constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kPlain = "\033[0m";
constexpr std::string_view kEraseLine = "\r\033[K";

// What the signal handler reads; lock-free atomics and plain data written before the flag that guards it.
std::atomic<bool> interrupt_flag{false};
std::atomic<bool> interrupt_held{false};
std::atomic<bool> second_interrupt_ends{true};
std::atomic<bool> dim_is_on{false};
std::atomic<bool> progress_is_shown{false};
std::atomic<bool> mode_is_known{false};
std::atomic<bool> screen_changed{false};
termios known_mode;
static_assert(std::atomic<bool>::is_always_lock_free);

void write_raw(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

/// Sets the mode when this program has the terminal; a background process would be stopped by trying.
void set_mode_in_foreground(const termios& mode) {
  if (tcgetpgrp(STDIN_FILENO) != getpgrp()) return;
  sigset_t output_stop;
  sigset_t before;
  sigemptyset(&output_stop);
  sigaddset(&output_stop, SIGTTOU);  // the shell may have taken the terminal since
  pthread_sigmask(SIG_BLOCK, &output_stop, &before);
  tcsetattr(STDIN_FILENO, TCSANOW, &mode);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void install(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  sigemptyset(&action.sa_mask);
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

extern "C" void handle_resize(int) {
  screen_changed.store(true);
}

/// Ctrl-Z: the shell gets its terminal back as it was; the present mode returns when the program goes on.
extern "C" void handle_stop(int) {
  const int saved_errno = errno;
  termios present;
  const bool restores = mode_is_known.load() && tcgetattr(STDIN_FILENO, &present) == 0;
  if (dim_is_on.load()) write_raw(STDOUT_FILENO, kPlain);
  if (restores) set_mode_in_foreground(known_mode);
  install(SIGTSTP, SIG_DFL, 0);
  sigset_t stop;
  sigset_t before;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  static_cast<void>(raise(SIGTSTP));
  pthread_sigmask(SIG_UNBLOCK, &stop, &before);  // stops here
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  install(SIGTSTP, handle_stop, SA_RESTART);
  if (restores) set_mode_in_foreground(present);
  if (dim_is_on.load()) write_raw(STDOUT_FILENO, kDim);
  screen_changed.store(true);
  errno = saved_errno;
}

extern "C" void handle_signal(int signal) {
  const int saved_errno = errno;
  if (signal == SIGINT && interrupt_held.load()) {
    const bool first = !interrupt_flag.exchange(true);
    if (first || !second_interrupt_ends.load()) {
      errno = saved_errno;
      return;
    }
  }
  if (progress_is_shown.load()) write_raw(STDERR_FILENO, kEraseLine);
  if (dim_is_on.load()) write_raw(STDOUT_FILENO, kPlain);
  if (mode_is_known.load()) set_mode_in_foreground(known_mode);
  _exit(128 + signal);
}

bool environment_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

bool input_is_terminal() {
  return isatty(STDIN_FILENO) != 0;
}
bool output_is_terminal() {
  return isatty(STDOUT_FILENO) != 0;
}
bool errors_are_terminal() {
  return isatty(STDERR_FILENO) != 0;
}

bool output_has_styles() {
  static const bool styles = [] {
    const char* term = std::getenv("TERM");
    return output_is_terminal() && term != nullptr && *term != '\0' && std::strcmp(term, "dumb") != 0 &&
           !environment_set("NO_COLOR");
  }();
  return styles;
}

void set_dim(bool dim) {
  if (!output_has_styles() || dim_is_on.load() == dim) return;
  // On before the text and off after it, so that a signal in between restores what may be on.
  if (dim) dim_is_on.store(true);
  write_output(dim ? kDim : kPlain);
  if (!dim) dim_is_on.store(false);
}

std::string without_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    const bool c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                    static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c1) ++i;
    if (!c0 && !c1) out += text[i];
  }
  return out;
}

void use_utf8_locale() {
  for (const char* name : {"", "C.UTF-8", "en_US.UTF-8"}) {
    if (std::setlocale(LC_CTYPE, name) != nullptr && std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return;
  }
}

void install_signal_handlers() {
  const auto ignored = [](int signal) {
    struct sigaction present = {};
    sigaction(signal, nullptr, &present);
    return present.sa_handler == SIG_IGN;
  };
  install(SIGPIPE, SIG_IGN, 0);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) {
    const bool nohup = signal == SIGHUP && ignored(signal);
    if (!nohup) install(signal, handle_signal, 0);  // no SA_RESTART: a read at the prompt must return
  }
  if (!ignored(SIGTSTP)) install(SIGTSTP, handle_stop, SA_RESTART);
  install(SIGWINCH, handle_resize, SA_RESTART);
}

void remember_terminal_mode() {
  if (mode_is_known.load() || tcgetattr(STDIN_FILENO, &known_mode) != 0) return;
  mode_is_known.store(true);
}

InterruptScope::InterruptScope(Second second) {
  LILY_CHECK(!interrupt_held.load(), "two interrupt scopes at once");
  interrupt_flag.store(false);
  second_interrupt_ends.store(second == Second::kEnds);
  interrupt_held.store(true);
}

InterruptScope::~InterruptScope() {
  interrupt_held.store(false);
}

// The scope is the licence to use the flag, which the handler needs at a fixed place.
std::atomic<bool>& InterruptScope::flag() const {  // NOLINT(readability-convert-member-functions-to-static)
  return interrupt_flag;
}

bool take_screen_change() {
  return screen_changed.exchange(false);
}

bool wait_for_input(const std::function<void()>& redraw) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  for (const int signal : {SIGINT, SIGWINCH, SIGTSTP}) sigaddset(&blocked, signal);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  int ready = 0;
  while (ready <= 0 && !interrupt_flag.load()) {
    if (redraw && take_screen_change()) redraw();
    fd_set inputs;
    FD_ZERO(&inputs);
    FD_SET(STDIN_FILENO, &inputs);
    ready = pselect(STDIN_FILENO + 1, &inputs, nullptr, nullptr, nullptr, &before);
    if (ready < 0 && errno != EINTR) break;  // the read will tell
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !interrupt_flag.load();
}

Progress::Progress(std::string label, double delay_ms)
    : label_(std::move(label)), delay_ms_(delay_ms), enabled_(errors_are_terminal()) {}

void Progress::update(uint64_t done, uint64_t total, std::string_view detail) {
  if (!enabled_) return;
  const double now = since_start_.elapsed_ms();
  if (now < delay_ms_ || now - last_ms_ < 100) return;
  last_ms_ = now;
  const uint64_t percent = total == 0 ? 100 : std::min<uint64_t>(100, done * 100 / total);
  shown_ = true;
  progress_is_shown.store(true);
  write_raw(STDERR_FILENO, fmt::format("{}{} {} %{}{}{}", kEraseLine, label_, percent, detail.empty() ? "" : " (",
                                       detail, detail.empty() ? "" : ")"));
}

void Progress::clear() {
  if (!shown_) return;
  write_raw(STDERR_FILENO, kEraseLine);
  shown_ = false;
  progress_is_shown.store(false);
}

}  // namespace lily
