// Lines of text from a person: edited with libedit and its history on a terminal, plain lines otherwise.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace lily {

class LineEditor {
 public:
  enum class Status { kLine, kEnd, kInterrupted };

  /// `history_file` is read now and written at the end; empty: history of this session only.
  explicit LineEditor(std::filesystem::path history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// One line without its newline. kInterrupted: Ctrl-C, or another signal while waiting.
  Status read(const std::string& prompt, std::string& line);
  void add_history(const std::string& line);
  /// Whether a person edits lines, so that prompts are shown.
  bool interactive() const { return terminal_ != nullptr; }

 private:
  class Terminal;
  Status read_plain(std::string& line);

  std::unique_ptr<Terminal> terminal_;
  std::string pending_;  // read from standard input and not handed out
  bool ended_ = false;
};

}  // namespace lily
