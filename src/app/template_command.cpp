// lily template: the prompt that the chat template makes of a conversation.
#include <CLI/CLI.hpp>
#include <memory>

#include "app/commands.h"
#include "app/exit_status.h"
#include "app/model_options.h"
#include "app/prompt.h"
#include "app/standard_streams.h"
#include "text/normalize_messages.h"
#include "text/tokenizer.h"

namespace lily {
namespace {

struct TemplateOptions {
  ModelOptions model;
  std::string messages_file;
  std::string tools_file;
  bool no_think = false;
  bool preserve_thinking = false;
  bool no_generation_prompt = false;
  bool repair = false;
  bool json = false;
};

constexpr const char* kFooter =
    "The messages file holds a JSON list of {role, content, ...}, or an object with such a list as \"messages\"; - is "
    "standard\n"
    "input. The template is as strict as the published one; --repair first does what the server does for its clients:\n"
    "developer messages become system messages, system messages are joined at the front, arguments given as text are "
    "parsed.";

int render(const TemplateOptions& options) {
  if (options.messages_file == "-" && options.tools_file == "-") {
    throw Error(ErrorCode::kUsage, "--messages and --tools both read standard input, which holds one of them");
  }
  ordered_json messages = read_messages(options.messages_file);
  if (options.repair) messages = value_or_raise(normalize_messages(std::move(messages)));
  const ordered_json tools = options.tools_file.empty() ? ordered_json() : read_tools(options.tools_file);
  const Tokenizer tokenizer = load_tokenizer(options.model);
  const ChatTemplateInput input{.messages = messages,
                                .tools = &tools,
                                .add_generation_prompt = !options.no_generation_prompt,
                                .enable_thinking = !options.no_think,
                                .preserve_thinking = options.preserve_thinking,
                                .version = model_template(model_folder(options.model))};
  const Prompt prompt = value_or_raise(make_prompt(tokenizer, input));
  write_output(options.json ? compact_json({{"text", prompt.text}, {"ids", prompt.ids}}) + "\n" : prompt.text);
  return kExitDone;
}

}  // namespace

void add_template(CLI::App& root, Action& action) {
  auto options = std::make_shared<TemplateOptions>();
  CLI::App* command = root.add_subcommand("template", "Show the prompt of a conversation");
  add_model_folder(*command, options->model);
  command->add_option("--messages", options->messages_file, "JSON file with the messages")
      ->type_name("FILE")
      ->required();
  command->add_option("--tools", options->tools_file, "JSON file with the tools")->type_name("FILE");
  command->add_flag("--no-think", options->no_think, "Render for an answer without reasoning");
  command->add_flag("--preserve-thinking", options->preserve_thinking, "Keep the reasoning of all earlier turns");
  command->add_flag("--no-generation-prompt", options->no_generation_prompt, "Do not open the assistant's turn");
  command->add_flag("--repair", options->repair, "Accept what clients get wrong");
  command->add_flag("--json", options->json, "One JSON object on standard output: text and ids");
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return render(*options); }; });
}

}  // namespace lily
