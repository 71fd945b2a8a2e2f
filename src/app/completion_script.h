// Shell completion scripts made from the command line's own tree, so that they cannot fall behind it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace lily {

struct CompletionOption {
  std::vector<std::string> names;  // with dashes
  std::string description;
  enum class Value { kNone, kText, kFile, kFolder, kChoice } value = Value::kNone;
  std::vector<std::string> choices = {};
};

struct CompletionCommand {
  std::string name;
  std::string description;
  std::vector<CompletionOption> options;
  std::vector<std::string> positional_choices;
};

struct CompletionTree {
  std::vector<CompletionOption> options;  // of the program itself
  std::vector<CompletionCommand> commands;
};

CompletionTree completion_tree(const CLI::App& root);

std::string bash_completion(const CompletionTree& tree);
std::string zsh_completion(const CompletionTree& tree);
std::string fish_completion(const CompletionTree& tree);

}  // namespace lily
