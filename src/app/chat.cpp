// lily chat: a conversation on the terminal, or line by line from standard input.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "app/chat_input.h"
#include "app/commands.h"
#include "app/exit_status.h"
#include "app/line_editor.h"
#include "app/model_answer.h"
#include "app/model_options.h"
#include "app/prompt.h"
#include "app/sampling_flags.h"
#include "app/standard_streams.h"
#include "app/terminal.h"
#include "app/transcript.h"
#include "engine/admission.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace lily {
namespace {

struct ChatOptions {
  ModelOptions model;
  SamplingFlags sampling;
  std::optional<std::string> system;
  std::optional<std::string> history;
  std::string load;
  bool think = true;
  bool think_given = false;
  bool preserve_thinking = true;
  bool preserve_thinking_given = false;
};

constexpr const char* kFooter =
    "The reasoning is shown dim. Ctrl-C stops the answer and keeps what was said. /help lists the commands.\n"
    "Earlier reasoning stays in the conversation, so that each turn only has to be read once; --no-preserve-thinking "
    "drops it\n"
    "as the chat template does by default, which saves context but reads the conversation again at every turn.\n"
    "When standard input is no terminal, its lines are the messages and standard output gets the answers.";

std::filesystem::path default_history_file() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const std::string state = variable("XDG_STATE_HOME"); !state.empty()) return state + "/lily/history";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.local/state/lily/history";
  return {};
}

class Chat {
 public:
  Chat(const ChatOptions& options, Engine& engine)
      : engine_(engine),
        session_(value_or_raise(engine.open_session())),
        version_(model_template(model_folder(options.model))),
        sampling_(value_or_raise(request_from(options.sampling))),
        editor_(options.history ? std::filesystem::path(*options.history) : default_history_file()) {
    check_request();
    transcript_.model = model_folder(options.model).string();
    if (!options.load.empty()) take(value_or_raise(load_conversation(options.load)));
    if (options.load.empty() || options.think_given) transcript_.thinking = options.think;
    if (options.load.empty() || options.preserve_thinking_given) {
      transcript_.preserve_thinking = options.preserve_thinking;
    }
    if (options.system) set_system(valid_utf8(*options.system));
  }

  int run() {
    if (editor_.interactive()) {
      write_output(fmt::format("{}, {} tokens of context, {}; /help lists the commands\n", transcript_.model,
                               engine_.context_limit(), engine_.backend().description()));
    }
    while (!output_closed()) {
      const std::optional<std::string> input = read_input_lines();
      if (!input) break;
      if (input->find_first_not_of(" \t\n") == std::string::npos) continue;
      editor_.add_history(*input);
      const ChatInput parsed = parse_chat_input(*input);
      if (parsed.kind == ChatInput::Kind::kQuit) break;
      obey(parsed);
    }
    return status_;
  }

 private:
  /// The options are looked at before the first message is typed.
  void check_request() const {
    GenerateRequest request = sampling_;
    request.prompt = {0};
    value_or_raise(admit(engine_, request));
  }

  /// Says what went wrong. A person sees it and goes on; a script learns it from the exit status too.
  void complain(const std::string& message, int status = kExitUnusable) {
    write_error_line(fmt::format("lily: error: {}", errors_are_terminal() ? without_controls(message) : message));
    if (!editor_.interactive() && status_ == kExitDone) status_ = status;
  }

  /// The next input, or nothing at the end. Ctrl-C drops what was typed.
  std::optional<std::string> read_input_lines() {
    LineJoiner joiner;
    std::string line;
    while (true) {
      interrupt_.clear();
      switch (editor_.read(joiner.open() ? ". " : "> ", line)) {
        case LineEditor::Status::kLine:
          if (joiner.add(line)) return joiner.take();
          break;
        case LineEditor::Status::kInterrupted:
          joiner.take();
          break;
        case LineEditor::Status::kTooLong:
          joiner.take();
          complain("a line of the input is longer than 16 MB; it was left out");
          break;
        case LineEditor::Status::kEnd:
          return joiner.open() ? std::optional(joiner.take()) : std::nullopt;
      }
    }
  }

  void obey(const ChatInput& input) {
    switch (input.kind) {
      case ChatInput::Kind::kMessage:
        return answer(input.text);
      case ChatInput::Kind::kHelp:
        return write_output(chat_help());
      case ChatInput::Kind::kReset:
        return reset();
      case ChatInput::Kind::kThink:
        return think(input.text);
      case ChatInput::Kind::kSystem:
        return system(input.text);
      case ChatInput::Kind::kSave:
        return save(input.text);
      case ChatInput::Kind::kLoad:
        return load(input.text);
      case ChatInput::Kind::kStats:
        return stats();
      case ChatInput::Kind::kUnknown:
        return complain(fmt::format("there is no command /{}; /help lists them", input.text));
      case ChatInput::Kind::kQuit:
        return;
    }
  }

  void answer(const std::string& text) {
    ordered_json& messages = transcript_.messages;
    messages.push_back({{"role", "user"}, {"content", text}});
    Result<ModelAnswer> answer = generate();
    std::optional<std::string> problem;
    int status = kExitFailed;
    if (!answer) {
      if (answer.failure().kind != FailureKind::kRuntime) status = kExitUnusable;
      problem = answer.failure().message;
      if (answer.failure().kind == FailureKind::kTooLong) *problem += "; /reset starts over";
    } else if (answer.value().result.finish_reason == FinishReason::kError) {
      problem = answer.value().result.error;
    } else if (answer.value().result.token_ids.empty()) {
      problem = "stopped before the answer began";
    }
    if (problem) {
      messages.erase(messages.size() - 1);  // as if it had not been said
      return complain(*problem, status);
    }
    messages.push_back(answer.value().turn.to_message(answer.value().cause));
    last_summary_ = summary_line(answer.value().result, answer.value().finish_reason);
    answered_tokens_ += answer.value().result.token_ids.size();
    if (answer.value().finish_reason == "cancelled") write_output("[stopped]\n");
    if (answer.value().finish_reason == "length") write_output("[cut at the token limit]\n");
  }

  Result<ModelAnswer> generate() {
    Result<Prompt> prompt = make_prompt(engine_.tokenizer(), {.messages = transcript_.messages,
                                                              .enable_thinking = transcript_.thinking,
                                                              .preserve_thinking = transcript_.preserve_thinking,
                                                              .version = version_});
    if (!prompt) return prompt.failure();
    if (Result<void> fits = check_prompt_length(prompt.value().ids.size(), engine_.context_limit()); !fits) {
      return fits.failure();
    }
    GenerateRequest request = sampling_;
    request.prompt = std::move(prompt.value().ids);
    AnswerPrinter printer({.show_reasoning = output_is_terminal(), .for_terminal = output_is_terminal()});
    return generate_answer(engine_, session_,
                           {.request = std::move(request),
                            .parse = true,
                            .parser = parser_options(prompt.value().starts_in_reasoning, {}),
                            .printer = &printer,
                            .interrupt = &interrupt_.flag(),
                            .progress = true});
  }

  bool has_system() const {
    const ordered_json& messages = transcript_.messages;
    return !messages.empty() && messages.front()["role"] == "system";
  }

  void set_system(const std::optional<std::string>& text) {
    ordered_json& messages = transcript_.messages;
    if (has_system()) messages.erase(0);
    if (text) messages.insert(messages.begin(), ordered_json{{"role", "system"}, {"content", *text}});
  }

  void reset() {
    ordered_json kept = ordered_json::array();
    if (has_system()) kept.push_back(transcript_.messages.front());
    transcript_.messages = std::move(kept);
    session_.reset();
    write_output("[the conversation is empty]\n");
  }

  void think(const std::string& argument) {
    if (!argument.empty() && argument != "on" && argument != "off") return complain("/think takes on or off");
    transcript_.thinking = argument.empty() ? !transcript_.thinking : argument == "on";
    write_output(fmt::format("[thinking is {}]\n", transcript_.thinking ? "on" : "off"));
  }

  void system(const std::string& argument) {
    if (argument == "-") {
      set_system(std::nullopt);
    } else if (!argument.empty()) {
      set_system(argument);
    }
    if (!has_system()) return write_output("[no system message]\n");
    Result<std::string> text = content_text(transcript_.messages.front()["content"], true);
    const std::string shown = text ? text.value() : text.failure().message;
    write_output(fmt::format("[system message: {}]\n", output_is_terminal() ? without_controls(shown) : shown));
  }

  void save(const std::string& file) {
    if (file.empty()) return complain("/save needs a file name");
    const Result<void> saved = save_transcript(transcript_, file);
    if (!saved) return complain(saved.failure().message);
    write_output(fmt::format("[saved {} messages to {}]\n", transcript_.messages.size(), file));
  }

  void load(const std::string& file) {
    if (file.empty()) return complain("/load needs a file name");
    Result<Transcript> loaded = load_conversation(file);
    if (!loaded) return complain(loaded.failure().message);
    take(std::move(loaded).value());
    write_output(fmt::format("[loaded {} messages from {}]\n", transcript_.messages.size(), file));
  }

  /// A transcript that can be gone on with.
  Result<Transcript> load_conversation(const std::string& file) const {
    Result<Transcript> loaded = load_transcript(file);
    if (!loaded) return loaded.failure();
    const Result<void> usable = check_conversation(loaded.value().messages, version_);
    if (!usable) return invalid("{}: {}", file, usable.failure().message);
    return loaded;
  }

  void take(Transcript loaded) {
    loaded.model = transcript_.model;
    transcript_ = std::move(loaded);
    session_.reset();
  }

  void stats() {
    write_output(fmt::format("{} messages, {} of {} tokens of context in use, {} tokens answered\n",
                             transcript_.messages.size(), session_.length(), engine_.context_limit(),
                             answered_tokens_));
    if (!last_summary_.empty()) write_output(fmt::format("last: {}\n", last_summary_));
    write_output(fmt::format("thinking {}; loaded in {:.0f} ms; {}\n", transcript_.thinking ? "on" : "off",
                             engine_.load_ms(), engine_.backend().description()));
  }

  Engine& engine_;
  Session session_;
  TemplateVersion version_;
  GenerateRequest sampling_;
  InterruptScope interrupt_{InterruptScope::Second::kIgnored};
  LineEditor editor_;
  Transcript transcript_;
  std::string last_summary_;
  uint64_t answered_tokens_ = 0;
  int status_ = kExitDone;
};

}  // namespace

void add_chat(CLI::App& root, Action& action) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = root.add_subcommand("chat", "Talk with the model");
  add_model_options(*command, options->model);
  command->add_option("--system", options->system, "System message");
  const CLI::Option* think =
      command->add_flag("--think,!--no-think", options->think, "Let the model reason before it answers (default: on)");
  const CLI::Option* preserve =
      command->add_flag("--preserve-thinking,!--no-preserve-thinking", options->preserve_thinking,
                        "Keep earlier reasoning in the conversation (default: on)");
  command
      ->add_option("--load", options->load, "Go on with a saved conversation; options given with it win over its own")
      ->type_name("FILE");
  command->add_option("--history", options->history, "File of typed lines; empty: none (default: in the state folder)")
      ->type_name("FILE");
  add_sampling_flags(*command, options->sampling);
  command->footer(kFooter);
  command->callback([options, think, preserve, &action] {
    options->think_given = think->count() > 0;
    options->preserve_thinking_given = preserve->count() > 0;
    action = [options] {
      const std::unique_ptr<Engine> engine = load_engine(options->model, {});
      return Chat(*options, *engine).run();
    };
  });
}

}  // namespace lily
