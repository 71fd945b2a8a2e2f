// lily completion: prints the completion script of a shell.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "app/commands.h"
#include "app/completion_script.h"
#include "app/exit_status.h"
#include "app/standard_streams.h"

namespace lily {

void add_completion(CLI::App& root, Action& action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = root.add_subcommand("completion", "Print a shell completion script");
  command->add_option("shell", *shell, "The shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer("Use it with: source <(lily completion bash)");
  command->callback([shell, &root, &action] {
    action = [shell, &root] {
      const CompletionTree tree = completion_tree(root);
      write_output(*shell == "bash"  ? bash_completion(tree)
                   : *shell == "zsh" ? zsh_completion(tree)
                                     : fish_completion(tree));
      return kExitDone;
    };
  });
}

}  // namespace lily
