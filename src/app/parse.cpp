// lily parse: the model's raw text as the assistant message that clients get. Needs no model.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <optional>

#include "app/commands.h"
#include "app/exit_status.h"
#include "app/model_answer.h"
#include "app/prompt.h"
#include "app/sampling_flags.h"
#include "app/standard_streams.h"
#include "app/terminal.h"
#include "text/assistant_turn.h"
#include "text/output_parser.h"

namespace lily {
namespace {

struct ParseOptions {
  std::string tools_file;
  bool thinking = false;
  std::string finish_reason = "stop";
  size_t chunk = 0;
  std::optional<uint64_t> seed;
  bool json = false;
};

constexpr const char* kFooter =
    "The text is read from standard input, as the model wrote it after the prompt. Tool calls are looked for only when "
    "there\n"
    "are tools. The result does not depend on --chunk.";

int parse(const ParseOptions& options) {
  if (options.tools_file == "-") throw Error(ErrorCode::kUsage, "--tools: standard input is for the model's text");
  const ordered_json tools = options.tools_file.empty() ? ordered_json() : read_tools(options.tools_file);
  const std::string text = valid_utf8(read_input());
  const FinishCause cause = options.finish_reason == "length" ? FinishCause::kLength : FinishCause::kStop;
  OutputParser parser(parser_options(options.thinking, tools, options.seed));
  AssistantTurn turn;
  std::vector<ParserEvent> all;
  const auto take = [&](const std::vector<ParserEvent>& events) {
    turn.add(events);
    all.insert(all.end(), events.begin(), events.end());
  };
  const size_t step = options.chunk == 0 ? std::max<size_t>(text.size(), 1) : options.chunk;
  for (size_t at = 0; at < text.size(); at += step) take(parser.push(std::string_view(text).substr(at, step)));
  take(parser.finish(cause));
  if (options.json) {
    write_output(compact_json({{"message", turn.to_message(cause)}, {"finish_reason", turn.finish_reason(cause)}}) +
                 "\n");
    return kExitDone;
  }
  AnswerPrinter printer({.show_reasoning = true, .for_terminal = output_is_terminal()});
  printer.add(all);
  printer.finish();
  write_output(fmt::format("[{}]\n", turn.finish_reason(cause)));
  return kExitDone;
}

}  // namespace

void add_parse(CLI::App& root, Action& action) {
  auto options = std::make_shared<ParseOptions>();
  CLI::App* command = root.add_subcommand("parse", "Split the model's raw text into reasoning, answer and tool calls");
  command->add_option("--tools", options->tools_file, "JSON file with the tools the model could call")
      ->type_name("FILE");
  command->add_flag("--thinking", options->thinking, "The prompt ended inside the think block");
  command->add_option("--finish-reason", options->finish_reason, "Why the text ended")
      ->check(CLI::IsMember({"stop", "length"}));
  command->add_option("--chunk", options->chunk, "Hand the text over in pieces of this many bytes")
      ->check(CLI::Range(size_t{1}, size_t{1} << 30));
  command->add_option("--seed", options->seed, "Seed of the call ids (default: random)")->check(seed_check());
  command->add_flag("--json", options->json, "One JSON object on standard output: message and finish_reason");
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return parse(*options); }; });
}

}  // namespace lily
