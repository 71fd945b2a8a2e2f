#include "app/completion_script.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "app/commands.h"

namespace lily {
namespace {

const CompletionCommand& command_of(const CompletionTree& tree, std::string_view name) {
  const auto found = std::find_if(tree.commands.begin(), tree.commands.end(),
                                  [&](const CompletionCommand& command) { return command.name == name; });
  EXPECT_NE(found, tree.commands.end()) << name;
  return *found;
}

const CompletionOption& option_of(const CompletionCommand& command, const std::string& name) {
  const auto found = std::find_if(command.options.begin(), command.options.end(), [&](const CompletionOption& option) {
    return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
  });
  EXPECT_NE(found, command.options.end()) << name;
  return *found;
}

class CompletionOfLily : public testing::Test {
 protected:
  void SetUp() override {
    build_command_line(root, action);
    tree = completion_tree(root);
  }
  CLI::App root{"", "lily"};
  Action action;
  CompletionTree tree;
};

using Value = CompletionOption::Value;

TEST_F(CompletionOfLily, HasEverySubcommand) {
  std::vector<std::string> names;
  for (const CompletionCommand& command : tree.commands) names.push_back(command.name);
  EXPECT_EQ(names, (std::vector<std::string>{"run", "chat", "tokenize", "template", "parse", "inspect", "perplexity",
                                             "bench", "completion"}));
}

TEST_F(CompletionOfLily, KnowsWhatOptionsTake) {
  const CompletionCommand& run = command_of(tree, "run");
  EXPECT_EQ(option_of(run, "--model").value, Value::kFolder);
  EXPECT_EQ(option_of(run, "-m").names.size(), 2U);
  EXPECT_EQ(option_of(run, "--tools").value, Value::kFile);
  EXPECT_EQ(option_of(run, "--json").value, Value::kNone);
  EXPECT_EQ(option_of(run, "--no-think").value, Value::kNone);
  EXPECT_EQ(option_of(run, "--seed").value, Value::kText);
  EXPECT_EQ(option_of(run, "--activations").choices, (std::vector<std::string>{"bf16", "f32"}));
  EXPECT_EQ(option_of(run, "--backend").choices, (std::vector<std::string>{"auto", "cpu"}));
  EXPECT_EQ(command_of(tree, "completion").positional_choices, (std::vector<std::string>{"bash", "zsh", "fish"}));
}

TEST_F(CompletionOfLily, EveryScriptNamesEveryLongOption) {
  const std::string bash = bash_completion(tree);
  const std::string zsh = zsh_completion(tree);
  const std::string fish = fish_completion(tree);
  for (const CompletionCommand& command : tree.commands) {
    for (const CompletionOption& option : command.options) {
      for (const std::string& name : option.names) {
        if (!name.starts_with("--")) continue;
        EXPECT_NE(bash.find(name), std::string::npos) << name;
        EXPECT_NE(zsh.find("'" + name + "["), std::string::npos) << name;
        EXPECT_NE(fish.find(" -l " + name.substr(2)), std::string::npos) << name;
      }
    }
  }
}

TEST(CompletionScript, QuotesWhatShellsWouldRead) {
  CompletionTree tree;
  tree.commands.push_back({.name = "x",
                           .description = "it's",
                           .options = {{.names = {"--a"}, .description = "a [b]: it's"}},
                           .positional_choices = {}});
  EXPECT_NE(zsh_completion(tree).find("'--a[a \\[b\\]\\: it'\\''s]'"), std::string::npos) << zsh_completion(tree);
  EXPECT_NE(fish_completion(tree).find("-d 'a [b]: it\\'s'"), std::string::npos) << fish_completion(tree);
}

}  // namespace
}  // namespace lily
