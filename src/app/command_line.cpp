// The tree of subcommands and what belongs to the program as a whole.
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "app/backends.h"
#include "app/build_info.h"
#include "app/commands.h"

namespace lily {

std::string version_text() {
  const std::vector<std::string> levels = simd_level_names();
  return fmt::format("lily {} (commit {})\nbackends: {}\nSIMD: {} (this machine runs {})\n", version_number(),
                     build_commit(), fmt::join(backend_names(), ", "), levels.empty() ? "none" : levels.back(),
                     fmt::join(levels, ", "));
}

void build_command_line(CLI::App& root, Action& action) {
  root.description("Runs Qwen3.6-35B-A3B and its relatives from MLX 4-bit checkpoints.");
  root.set_version_flag("--version", version_text, "Show version, commit, backends and SIMD level");
  root.require_subcommand(0, 1);  // main() asks for one, after words that are none have been named
  root.footer(
      "lily COMMAND --help tells more about a command. Exit status: 0 done, 1 failed while running, 2 unusable input,\n"
      "options or environment, 130 interrupted. A reader that closes standard output early ends the program with 0.");
  add_run(root, action);
  add_chat(root, action);
  add_tokenize(root, action);
  add_template(root, action);
  add_parse(root, action);
  add_inspect(root, action);
  add_perplexity(root, action);
  add_bench(root, action);
  add_completion(root, action);
}

}  // namespace lily
