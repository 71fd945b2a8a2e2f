// The subcommands. Each adds itself to the command line and, when it is the one chosen, leaves what to do in `action`,
// which returns the exit status and may throw Error.
#pragma once

#include <functional>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace lily {

using Action = std::function<int()>;

void add_run(CLI::App& root, Action& action);
void add_chat(CLI::App& root, Action& action);
void add_tokenize(CLI::App& root, Action& action);
void add_template(CLI::App& root, Action& action);
void add_parse(CLI::App& root, Action& action);
void add_inspect(CLI::App& root, Action& action);
void add_perplexity(CLI::App& root, Action& action);
void add_bench(CLI::App& root, Action& action);
void add_completion(CLI::App& root, Action& action);

/// The whole command line: every subcommand, --version and --help.
void build_command_line(CLI::App& root, Action& action);
/// What --version prints.
std::string version_text();

}  // namespace lily
