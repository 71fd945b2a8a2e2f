// lily run: one prompt, one answer.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>

#include "app/commands.h"
#include "app/exit_status.h"
#include "app/model_answer.h"
#include "app/model_options.h"
#include "app/prompt.h"
#include "app/sampling_flags.h"
#include "app/standard_streams.h"
#include "app/terminal.h"
#include "app/token_list.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace lily {
namespace {

struct RunOptions {
  ModelOptions model;
  SamplingFlags sampling;
  std::optional<std::string> prompt;
  std::optional<std::string> token_ids;
  std::optional<std::string> system;
  std::string tools_file;
  bool think = true;
  bool raw = false;
  bool ignore_eos = false;
  bool no_stream = false;
  bool json = false;
  bool quiet = false;
  std::optional<uint32_t> logprobs;
};

constexpr const char* kFooter =
    "The prompt comes from -p, from standard input (-p -, or no -p and standard input is not a terminal), or as ids "
    "from\n"
    "--token-ids. Standard output gets the answer. The reasoning before it is shown dim on a terminal and is left out "
    "of\n"
    "pipes and files; --json has it as message.reasoning_content. Tool calls are printed as lines\n"
    "[tool call] NAME {arguments}. Ctrl-C ends the answer, keeps what was printed, and exits with 130.";

/// What the user wrote; ids for --token-ids.
struct Input {
  std::string text;
  std::optional<std::vector<uint32_t>> ids;
};

Input read_prompt(const RunOptions& options) {
  if (options.token_ids) {
    std::vector<uint32_t> ids = value_or_raise(parse_token_ids(*options.token_ids));
    if (ids.empty()) throw Error(ErrorCode::kUsage, "--token-ids: the list is empty");
    return {.text = {}, .ids = std::move(ids)};
  }
  if (!options.prompt && input_is_terminal()) {
    throw Error(ErrorCode::kUsage, "no prompt: give -p TEXT, -p - to read standard input, or --token-ids");
  }
  const bool from_input = !options.prompt || *options.prompt == "-";
  if (from_input && options.tools_file == "-") {
    throw Error(ErrorCode::kUsage, "--tools and the prompt both read standard input, which holds one of them");
  }
  std::string text = valid_utf8(from_input ? read_input() : *options.prompt);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw Error(ErrorCode::kUsage, "the prompt is empty");
  return {.text = std::move(text), .ids = std::nullopt};
}

Prompt chat_prompt(const Engine& engine, const RunOptions& options, const std::string& text,
                   const ordered_json& tools) {
  ordered_json messages = ordered_json::array();
  if (options.system) messages.push_back({{"role", "system"}, {"content", valid_utf8(*options.system)}});
  messages.push_back({{"role", "user"}, {"content", text}});
  return value_or_raise(make_prompt(engine.tokenizer(), {.messages = messages,
                                                         .tools = &tools,
                                                         .enable_thinking = options.think,
                                                         .version = model_template(model_folder(options.model))}));
}

std::string token_text(const Engine& engine, uint32_t id) {
  return engine.has_tokenizer() ? valid_utf8(engine.tokenizer().piece(id)) : std::string();
}

ordered_json logprobs_json(const Engine& engine, const GenerateResult& result) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < result.logprobs.size() && i < result.token_ids.size(); ++i) {
    const TokenLogprobs& token = result.logprobs[i];
    ordered_json top = ordered_json::array();
    for (const auto& [id, logprob] : token.top) {
      top.push_back({{"id", id}, {"token", token_text(engine, id)}, {"logprob", shortest_double(logprob)}});
    }
    const uint32_t id = result.token_ids[i];
    list.push_back({{"id", id},
                    {"token", token_text(engine, id)},
                    {"logprob", shortest_double(token.logprob)},
                    {"top", std::move(top)}});
  }
  return list;
}

ordered_json answer_json(const Engine& engine, const RunOptions& options, const Prompt& prompt,
                         const ModelAnswer& answer) {
  const GenerateResult& result = answer.result;
  ordered_json out = ordered_json::object();
  out["prompt_ids"] = prompt.ids;
  out["token_ids"] = result.token_ids;
  out["text"] = result.text;
  out["finish_reason"] = answer.finish_reason;
  if (result.stop_string) out["stop"] = *result.stop_string;
  if (!options.raw) out["message"] = answer.turn.to_message(answer.cause);
  if (options.logprobs) out["logprobs"] = logprobs_json(engine, result);
  out["seed"] = result.seed;
  out["timings"] = {{"prefill_tokens", result.timings.prefill_tokens},
                    {"prefill_ms", result.timings.prefill_ms},
                    {"decode_tokens", result.timings.decode_tokens},
                    {"decode_ms", result.timings.decode_ms}};
  return out;
}

/// The answer in one go, as the stream would have been.
void print_whole(const ModelAnswer& answer, AnswerPrinter& printer) {
  using Kind = ParserEvent::Kind;
  std::vector<ParserEvent> events;
  events.push_back({.kind = Kind::kReasoning, .text = answer.turn.reasoning, .call_id = {}});
  events.push_back({.kind = Kind::kContent, .text = answer.turn.content, .call_id = {}});
  for (const ToolCall& call : answer.turn.calls) {
    events.push_back({.kind = Kind::kCallBegin, .text = call.name, .call_id = call.id});
    events.push_back({.kind = Kind::kCallArguments, .text = call.arguments, .call_id = {}});
    events.push_back({.kind = Kind::kCallEnd, .text = {}, .call_id = {}, .complete = call.complete});
  }
  printer.add(events);
  printer.finish();
}

/// The exit status of a finished request.
int outcome(const GenerateResult& result) {
  if (output_closed()) return kExitDone;
  if (result.finish_reason == FinishReason::kCancelled) return kExitInterrupted;
  if (result.finish_reason == FinishReason::kError) throw Error(ErrorCode::kRuntime, "{}", result.error);
  return kExitDone;
}

int run(RunOptions options) {
  Input input = read_prompt(options);
  const ordered_json tools = options.tools_file.empty() ? ordered_json() : read_tools(options.tools_file);
  GenerateRequest request = value_or_raise(request_from(options.sampling));
  request.ignore_eos = options.ignore_eos;
  request.logprobs = options.logprobs.has_value();
  request.top_logprobs = options.logprobs.value_or(0);
  if (input.ids) options.raw = true;

  const std::unique_ptr<Engine> engine =
      load_engine(options.model, {.quiet = options.json || options.quiet, .text = !input.ids});
  Prompt prompt;
  if (input.ids) {
    prompt.ids = std::move(*input.ids);
    if (Result<void> ok = check_token_ids(prompt.ids, engine->shape().vocab); !ok) raise_failure(ok.failure());
  } else if (options.raw) {
    prompt.ids = engine->tokenizer().encode(input.text, AddedTokens::kAllow);
  } else {
    prompt = chat_prompt(*engine, options, input.text, tools);
  }
  if (Result<void> fits = check_prompt_length(prompt.ids.size(), engine->context_limit()); !fits) {
    raise_failure(fits.failure());
  }
  request.prompt = prompt.ids;

  InterruptScope interrupt(InterruptScope::Second::kEnds);
  Session session = value_or_raise(engine->open_session());
  AnswerPrinter printer({.show_reasoning = output_is_terminal(), .for_terminal = output_is_terminal()});
  const bool streams = !options.json && !options.no_stream;
  Result<ModelAnswer> generated =
      generate_answer(*engine, session,
                      {.request = std::move(request),
                       .parse = !options.raw,
                       .parser = parser_options(prompt.starts_in_reasoning, tools, options.sampling.sampling.seed),
                       .printer = streams ? &printer : nullptr,
                       .interrupt = &interrupt.flag(),
                       .progress = !options.json && !options.quiet});
  if (!generated) raise_failure(generated.failure());
  const ModelAnswer& answer = generated.value();
  if (options.json) {
    write_output(compact_json(answer_json(*engine, options, prompt, answer)) + "\n");
  } else if (options.no_stream) {
    print_whole(answer, printer);
  }
  if (!options.json && !options.quiet) {
    write_error_line(summary_line(answer.result, answer.finish_reason));
  }
  return outcome(answer.result);
}

}  // namespace

void add_run(CLI::App& root, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = root.add_subcommand("run", "Answer one prompt");
  add_model_options(*command, options->model);
  CLI::Option* prompt = command->add_option("-p,--prompt", options->prompt, "The prompt; - reads standard input");
  CLI::Option* ids =
      command->add_option("--token-ids", options->token_ids, "The prompt as token ids: 1,2,3")->type_name("IDS");
  CLI::Option* system = command->add_option("--system", options->system, "System message");
  CLI::Option* tools =
      command->add_option("--tools", options->tools_file, "JSON file with the tools the model may call")
          ->type_name("FILE");
  CLI::Option* raw = command->add_flag(
      "--raw", options->raw, "No chat template: the model goes on with the text; special tokens in it are recognised");
  command->add_flag("--think,!--no-think", options->think, "Let the model reason before it answers (default: on)");
  command->add_flag("--ignore-eos", options->ignore_eos, "Go on after the model's end token");
  command->add_option("--logprobs", options->logprobs, "With --json: log-probabilities, and this many alternatives")
      ->check(CLI::Range(0U, kMaxTopLogprobs));
  command->add_flag("--no-stream", options->no_stream, "Print the answer when it is complete");
  command->add_flag("--json", options->json, "One JSON object on standard output");
  command->add_flag("-q,--quiet", options->quiet, "No progress and no summary on standard error");
  add_sampling_flags(*command, options->sampling);
  ids->excludes(prompt)->excludes(system)->excludes(tools);
  raw->excludes(system)->excludes(tools);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace lily
