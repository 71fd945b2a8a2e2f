// The terminal: what it can show, progress lines, and signals. Whatever ends the program, the terminal is left as it
// was.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace lily {

bool input_is_terminal();
bool output_is_terminal();
bool errors_are_terminal();
/// Whether standard output is a terminal that knows dim text (TERM is not dumb, NO_COLOR is unset).
bool output_has_styles();

/// Switches dim text on standard output; does nothing where it has no styles.
void set_dim(bool dim);
/// The text without control characters other than newline and tab, which could move the cursor or change the terminal.
std::string without_controls(std::string_view text);

/// Makes a UTF-8 character type of the environment's locale, or the C locale's UTF-8 form, so that line editing knows
/// characters even with LANG=C.
void use_utf8_locale();

/// SIGPIPE is ignored (writes report it). SIGINT, SIGQUIT, SIGTERM and SIGHUP restore the terminal and end the program
/// with 128 plus their number, unless an InterruptScope holds SIGINT. SIGTSTP restores the terminal while the program
/// is stopped. A terminal that another process group has in the foreground is left alone.
void install_signal_handlers();
/// Remembers the terminal's present mode, to be restored by a signal that ends the program.
void remember_terminal_mode();

/// While it lives, Ctrl-C sets a flag instead of ending the program. One at a time.
class InterruptScope {
 public:
  enum class Second { kEnds, kIgnored };  // what another Ctrl-C does before the flag was cleared
  explicit InterruptScope(Second second);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// May be set by others too, to stop what watches it.
  std::atomic<bool>& flag() const;
  bool interrupted() const { return flag().load(std::memory_order_relaxed); }
  void clear() { flag().store(false, std::memory_order_relaxed); }
};

/// Waits until standard input can be read or has ended. False when the flag of the InterruptScope is set, before or
/// meanwhile: no Ctrl-C falls between looking and waiting.
bool wait_for_input(const std::function<void()>& redraw = {});
/// Whether the terminal's size has changed, or the program was stopped and goes on, since the last call: what is being
/// edited has to be drawn again. wait_for_input() calls `redraw` itself when that happens meanwhile.
bool take_screen_change();

/// One line on standard error that is rewritten in place and vanishes at the end; silent when that is no terminal.
class Progress {
 public:
  /// Nothing is shown before `delay_ms` have passed, so that short work leaves no trace.
  explicit Progress(std::string label, double delay_ms = 0);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// "label 45 % (detail)", at most ten times a second.
  void update(uint64_t done, uint64_t total, std::string_view detail = {});
  void clear();

 private:
  std::string label_;
  double delay_ms_;
  bool enabled_;
  bool shown_ = false;
  Stopwatch since_start_;
  double last_ms_ = -1e9;
};

}  // namespace lily
