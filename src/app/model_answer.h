// One answer of the model as a person or a file gets it: parsed while it is generated, printed, and summed up.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/generate.h"
#include "text/assistant_turn.h"
#include "text/output_parser.h"

namespace lily {

class Engine;
class Session;

/// Writes parser events to standard output as they come.
class AnswerPrinter {
 public:
  struct Options {
    bool show_reasoning = false;  // dim where the terminal can
    bool for_terminal = false;    // control characters are left out
  };
  explicit AnswerPrinter(Options options) : options_(options) {}

  void add(const std::vector<ParserEvent>& events);
  /// Ends dim text and the last line.
  void finish();

 private:
  void add_event(const ParserEvent& event);
  void print(std::string_view text);
  void begin_content();

  Options options_;
  bool reasoning_shown_ = false;
  bool at_line_start_ = true;
  std::string call_;
};

struct ModelAnswerOptions {
  GenerateRequest request;
  bool parse = false;  // off: all text is content
  OutputParserOptions parser;
  AnswerPrinter* printer = nullptr;        // null: nothing is printed
  std::atomic<bool>* interrupt = nullptr;  // cancels; also set when the reader of standard output has gone
  bool progress = false;                   // a line while a long prompt is read
};

struct ModelAnswer {
  GenerateResult result;
  AssistantTurn turn;
  FinishCause cause = FinishCause::kStop;  // what ended the text, for the turn
  std::string finish_reason;               // of the engine, or tool_calls
};

/// Runs one request. Failure: nothing has run.
Result<ModelAnswer> generate_answer(Engine& engine, Session& session, ModelAnswerOptions options);

/// Parser options for an answer; no calls are looked for when there are no tools. Call ids are random, or follow
/// `seed`.
OutputParserOptions parser_options(bool starts_in_reasoning, const ordered_json& tools,
                                   std::optional<uint64_t> seed = std::nullopt);

/// "prompt 12 tokens, 350.1 tok/s; answer 64 tokens, 53.2 tok/s; stop"
std::string summary_line(const GenerateResult& result, std::string_view finish_reason);

}  // namespace lily
