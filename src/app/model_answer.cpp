#include "app/model_answer.h"

#include <fmt/format.h>

#include <memory>
#include <random>
#include <utility>

#include "app/standard_streams.h"
#include "app/terminal.h"
#include "engine/engine.h"

namespace lily {
namespace {

std::string rate(uint32_t tokens, double ms) {
  return ms > 0 && tokens > 0 ? fmt::format(", {:.1f} tok/s", tokens * 1000.0 / ms) : "";
}

std::string finish_text(const ModelAnswer& answer, bool parsed) {
  switch (answer.result.finish_reason) {
    case FinishReason::kStop:
      return parsed ? answer.turn.finish_reason(FinishCause::kStop) : "stop";
    case FinishReason::kLength:
      return "length";
    default:
      return std::string(finish_reason_name(answer.result.finish_reason));
  }
}

}  // namespace

void AnswerPrinter::print(std::string_view text) {
  if (text.empty()) return;
  write_output(options_.for_terminal ? without_controls(text) : text);
  at_line_start_ = text.back() == '\n';
}

void AnswerPrinter::begin_content() {
  if (!reasoning_shown_) return;
  reasoning_shown_ = false;
  set_dim(false);
  print(at_line_start_ ? "\n" : "\n\n");
}

void AnswerPrinter::add_event(const ParserEvent& event) {
  switch (event.kind) {
    case ParserEvent::Kind::kReasoning:
      if (!options_.show_reasoning || event.text.empty()) return;
      set_dim(true);
      reasoning_shown_ = true;
      print(event.text);
      return;
    case ParserEvent::Kind::kContent:
      if (event.text.empty()) return;
      begin_content();
      print(event.text);
      return;
    case ParserEvent::Kind::kCallBegin:
      begin_content();
      call_ = fmt::format("[tool call] {} ", event.text);
      return;
    case ParserEvent::Kind::kCallArguments:
      call_ += event.text;
      return;
    case ParserEvent::Kind::kCallEnd:
      if (!at_line_start_) print("\n");
      print(call_ + (event.complete ? "\n" : " (cut short)\n"));
      return;
  }
}

void AnswerPrinter::add(const std::vector<ParserEvent>& events) {
  for (const ParserEvent& event : events) add_event(event);
}

void AnswerPrinter::finish() {
  set_dim(false);
  if (!at_line_start_) print("\n");
}

Result<ModelAnswer> generate_answer(Engine& engine, Session& session, ModelAnswerOptions options) {
  ModelAnswer answer;
  std::optional<OutputParser> parser;
  if (options.parse) parser.emplace(std::move(options.parser));
  const auto take = [&](const std::vector<ParserEvent>& events) {
    answer.turn.add(events);
    if (options.printer != nullptr) options.printer->add(events);
  };
  const auto take_text = [&](std::string_view text) {
    if (text.empty()) return;
    if (parser) {
      take(parser->push(text));
    } else {
      take({ParserEvent{.kind = ParserEvent::Kind::kContent, .text = std::string(text), .call_id = {}}});
    }
    if (output_closed() && options.interrupt != nullptr) options.interrupt->store(true);
  };

  options.request.cancel = options.interrupt;
  Progress progress("reading the prompt", 1000);
  GenerateCallbacks callbacks;
  if (options.progress) {
    callbacks.on_prefill_progress = [&](uint32_t done, uint32_t total) {
      progress.update(done, total, fmt::format("{} of {} tokens", done, total));
    };
  }
  callbacks.on_token = [&](const TokenEvent& event) {
    progress.clear();
    take_text(event.text);
  };
  Result<GenerateResult> result = engine.generate(session, options.request, callbacks);
  progress.clear();
  if (!result) return result.failure();
  answer.result = std::move(result).value();
  take_text(answer.result.tail);
  const bool stopped = answer.result.finish_reason == FinishReason::kStop;
  answer.cause = stopped ? FinishCause::kStop : FinishCause::kLength;
  if (parser) take(parser->finish(answer.cause));
  if (options.printer != nullptr) options.printer->finish();
  answer.finish_reason = finish_text(answer, options.parse);
  return answer;
}

OutputParserOptions parser_options(bool starts_in_reasoning, const ordered_json& tools, std::optional<uint64_t> seed) {
  const auto source = std::make_shared<std::mt19937_64>(seed ? *seed : random_seed());
  return {.starts_in_reasoning = starts_in_reasoning,
          .parse_tools = tools.is_array() && !tools.empty(),
          .tools = tools,
          .random_bits = [source] { return (*source)(); }};
}

std::string summary_line(const GenerateResult& result, std::string_view finish_reason) {
  const Timings& timings = result.timings;
  const std::string cached = timings.cached_tokens > 0 ? fmt::format(" ({} kept)", timings.cached_tokens) : "";
  return fmt::format("prompt {} tokens{}{}; answer {} tokens{}; {}", timings.prefill_tokens + timings.cached_tokens,
                     cached, rate(timings.prefill_tokens, timings.prefill_ms), result.token_ids.size(),
                     rate(timings.decode_tokens, timings.decode_ms), finish_reason);
}

}  // namespace lily
