#include "app/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cwchar>
#include <system_error>
#include <utility>

#include "app/standard_streams.h"
#include "app/terminal.h"
#include "base/log.h"

namespace lily {
namespace {

constexpr int kHistoryLines = 1000;
constexpr size_t kMaxLineBytes = size_t{16} << 20;

}  // namespace

/// libedit's editor and history, and the file behind it.
class LineEditor::Terminal {
 public:
  explicit Terminal(std::filesystem::path file) : file_(std::move(file)) {
    remember_terminal_mode();
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    std::error_code error;
    const auto size = std::filesystem::file_size(file_, error);
    if (!file_.empty() && !error && size > 0 && history(history_, &event, H_LOAD, file_.c_str()) < 0) {
      log_warning("{} is no history of typed lines; it is left as it is", file_.string());
      file_.clear();
    }
    editor_ = el_init("lily", stdin, stdout, stderr);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &Terminal::prompt);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_SIGNAL, 0);  // signals are terminal.cpp's
    el_set(editor_, EL_HIST, history, history_);
    el_set(editor_, EL_GETCFN, &Terminal::read_character);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_source(editor_, nullptr);
  }

  ~Terminal() {
    el_end(editor_);
    if (!file_.empty()) save();
    history_end(history_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Status read(const std::string& prompt, std::string& line) {
    prompt_ = prompt;
    interrupted_ = false;
    int count = 0;
    const char* text = el_gets(editor_, &count);
    if (text == nullptr || count <= 0) {
      write_output("\n");
      return interrupted_ ? Status::kInterrupted : Status::kEnd;
    }
    line.assign(text, static_cast<size_t>(count));
    return Status::kLine;
  }

  void add(const std::string& line) {
    HistEvent event;
    history(history_, &event, H_ENTER, line.c_str());
  }

 private:
  static char* prompt(EditLine* editor) {
    Terminal* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return self->prompt_.data();
  }

  /// One character for libedit: 1, 0 at the end, -1 on an interrupt.
  static int read_character(EditLine* editor, wchar_t* out) {
    Terminal* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    std::mbstate_t state{};
    while (true) {
      const auto redraw = [editor] {
        el_resize(editor);
        el_set(editor, EL_REFRESH);
      };
      if (!wait_for_input(redraw)) {
        self->interrupted_ = true;
        errno = EINTR;
        return -1;
      }
      char byte = 0;
      const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return 0;
      const size_t used = std::mbrtowc(out, &byte, 1, &state);
      if (used == static_cast<size_t>(-2)) continue;  // more bytes of the character follow
      if (used == static_cast<size_t>(-1)) *out = L'?';
      return 1;
    }
  }

  /// Prompts may be private: the file is the user's alone.
  void save() {
    std::error_code error;
    std::filesystem::create_directories(file_.parent_path(), error);
    const int descriptor = open(file_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (descriptor < 0) return;
    close(descriptor);
    HistEvent event;
    history(history_, &event, H_SAVE, file_.c_str());
  }

  std::filesystem::path file_;
  std::string prompt_;
  bool interrupted_ = false;
  History* history_ = nullptr;
  EditLine* editor_ = nullptr;
};

LineEditor::LineEditor(std::filesystem::path history_file) {
  if (input_is_terminal() && output_is_terminal()) terminal_ = std::make_unique<Terminal>(std::move(history_file));
}

LineEditor::~LineEditor() = default;

LineEditor::Status LineEditor::read(const std::string& prompt, std::string& line) {
  const Status status = terminal_ ? terminal_->read(prompt, line) : read_plain(line);
  if (status != Status::kLine) return status;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  line = valid_utf8(line);
  return status;
}

void LineEditor::add_history(const std::string& line) {
  if (terminal_) terminal_->add(line);
}

LineEditor::Status LineEditor::read_plain(std::string& line) {
  while (true) {
    const size_t newline = pending_.find('\n', searched_);
    searched_ = pending_.size();
    if (newline != std::string::npos || (ended_ && !pending_.empty())) {
      const size_t end = newline == std::string::npos ? pending_.size() : newline + 1;
      line = pending_.substr(0, end);
      pending_.erase(0, end);
      searched_ = 0;
      return std::exchange(dropping_, false) ? Status::kTooLong : Status::kLine;
    }
    if (pending_.size() > kMaxLineBytes) dropping_ = true;
    if (dropping_) {
      pending_.clear();
      searched_ = 0;
      if (ended_) return std::exchange(dropping_, false) ? Status::kTooLong : Status::kEnd;
    }
    if (ended_) return Status::kEnd;
    if (!wait_for_input()) return Status::kInterrupted;
    char buffer[4096];
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got > 0) {
      pending_.append(buffer, static_cast<size_t>(got));
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      ended_ = true;
    }
  }
}

}  // namespace lily
