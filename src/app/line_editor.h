// Lines of text from a person: edited with libedit and its history on a terminal, plain lines otherwise.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace lily {

class LineEditor {
 public:
  enum class Status { kLine, kEnd, kInterrupted, kTooLong };

  /// `history_file` is read now and written at the end, unless it holds something else; empty: history of this session
  /// only.
  explicit LineEditor(std::filesystem::path history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// One line without its newline. kInterrupted: Ctrl-C, or another signal while waiting. kTooLong: a line of more
  /// than 16 MB was passed over.
  Status read(const std::string& prompt, std::string& line);
  void add_history(const std::string& line);
  /// Whether a person edits lines, so that prompts are shown.
  bool interactive() const { return terminal_ != nullptr; }

 private:
  class Terminal;
  Status read_plain(std::string& line);

  std::unique_ptr<Terminal> terminal_;
  std::string pending_;    // read from standard input and not handed out
  size_t searched_ = 0;    // bytes of it without a newline
  bool dropping_ = false;  // inside a line that is too long
  bool ended_ = false;
};

}  // namespace lily
