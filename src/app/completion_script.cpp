#include "app/completion_script.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

namespace lily {
namespace {

std::vector<std::string> choices_of(const std::string& type_name) {
  std::vector<std::string> choices;
  const size_t open = type_name.find('{');
  const size_t close = type_name.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return choices;
  size_t at = open + 1;
  while (at < close) {
    const size_t end = std::min(type_name.find(',', at), close);
    choices.push_back(type_name.substr(at, end - at));
    at = end + 1;
  }
  return choices;
}

CompletionOption::Value value_of(const CLI::Option& option, const std::vector<std::string>& choices) {
  if (option.get_items_expected_max() == 0) return CompletionOption::Value::kNone;
  if (!choices.empty()) return CompletionOption::Value::kChoice;
  const std::string type = option.get_type_name();
  if (type.starts_with("FILE")) return CompletionOption::Value::kFile;
  if (type.starts_with("DIR")) return CompletionOption::Value::kFolder;
  return CompletionOption::Value::kText;
}

std::vector<CompletionOption> options_of(const CLI::App& app) {
  std::vector<CompletionOption> options;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->nonpositional()) continue;
    CompletionOption entry;
    for (const std::string& name : option->get_snames()) entry.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) entry.names.push_back("--" + name);
    entry.description = option->get_description();
    entry.choices = choices_of(option->get_type_name());
    entry.value = value_of(*option, entry.choices);
    options.push_back(std::move(entry));
  }
  return options;
}

/// All names, one string.
std::string names_text(const std::vector<CompletionOption>& options) {
  std::string out;
  for (const CompletionOption& option : options)
    out += fmt::format("{}{}", out.empty() ? "" : " ", fmt::join(option.names, " "));
  return out;
}

std::string bash_value(const CompletionOption& option) {
  switch (option.value) {
    case CompletionOption::Value::kFile:
      return "compopt -o default; COMPREPLY=()";
    case CompletionOption::Value::kFolder:
      return R"sh(compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")))sh";
    case CompletionOption::Value::kChoice:
      return fmt::format(R"sh(COMPREPLY=($(compgen -W "{}" -- "$word")))sh", fmt::join(option.choices, " "));
    default:
      return "COMPREPLY=()";
  }
}

/// The text inside single quotes of a shell.
std::string shell_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out;
}

/// The text inside single quotes of fish, where a backslash escapes.
std::string fish_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

/// Inside an _arguments spec, brackets and colons mean something.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return shell_quoted(out);
}

std::string zsh_value(const CompletionOption& option) {
  switch (option.value) {
    case CompletionOption::Value::kNone:
      return "";
    case CompletionOption::Value::kFile:
      return ":file:_files";
    case CompletionOption::Value::kFolder:
      return ":folder:_files -/";
    case CompletionOption::Value::kChoice:
      return fmt::format(":value:({})", fmt::join(option.choices, " "));
    case CompletionOption::Value::kText:
      return ":value:";
  }
  return "";
}

std::string zsh_specs(const std::vector<CompletionOption>& options, std::string_view indent) {
  std::string out;
  for (const CompletionOption& option : options) {
    for (const std::string& name : option.names) {
      out += fmt::format(" \\\n{}'{}[{}]{}'", indent, name, zsh_text(option.description), zsh_value(option));
    }
  }
  return out;
}

std::string fish_option(const CompletionOption& option, std::string_view condition) {
  std::string names;
  for (const std::string& name : option.names) {
    names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  std::string value;
  switch (option.value) {
    case CompletionOption::Value::kNone:
      break;
    case CompletionOption::Value::kText:
      value = " -x";
      break;
    case CompletionOption::Value::kFile:
      value = " -r -F";
      break;
    case CompletionOption::Value::kFolder:
      value = " -x -a '(__fish_complete_directories)'";
      break;
    case CompletionOption::Value::kChoice:
      value = fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      break;
  }
  return fmt::format("complete -c lily -n '{}'{}{} -d '{}'\n", condition, names, value,
                     fish_quoted(option.description));
}

std::string command_names(const CompletionTree& tree) {
  std::string out;
  for (const CompletionCommand& command : tree.commands) out += (out.empty() ? "" : " ") + command.name;
  return out;
}

}  // namespace

CompletionTree completion_tree(const CLI::App& root) {
  CompletionTree tree;
  tree.options = options_of(root);
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    CompletionCommand entry{.name = command->get_name(),
                            .description = command->get_description(),
                            .options = options_of(*command),
                            .positional_choices = {}};
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional()) entry.positional_choices = choices_of(option->get_type_name());
    }
    tree.commands.push_back(std::move(entry));
  }
  return tree;
}

std::string bash_completion(const CompletionTree& tree) {
  std::string out =
      "# bash completion of lily; source it, or put it into the completions folder.\n"
      "_lily() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" command=\"\" i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"${COMP_WORDS[i]}\" in -*) ;; *) command=\"${COMP_WORDS[i]}\"; break ;; esac\n"
      "  done\n"
      "  COMPREPLY=()\n"
      "  case \"$command\" in\n";
  for (const CompletionCommand& command : tree.commands) {
    out += fmt::format("    {})\n      case \"$before\" in\n", command.name);
    for (const CompletionOption& option : command.options) {
      if (option.value == CompletionOption::Value::kNone) continue;
      out += fmt::format("        {}) {}; return ;;\n", fmt::join(option.names, "|"), bash_value(option));
    }
    out += fmt::format("      esac\n      COMPREPLY=($(compgen -W \"{}{}{}\" -- \"$word\"))\n      ;;\n",
                       names_text(command.options), command.positional_choices.empty() ? "" : " ",
                       fmt::join(command.positional_choices, " "));
  }
  out += fmt::format("    *) COMPREPLY=($(compgen -W \"{} {}\" -- \"$word\")) ;;\n  esac\n}}\ncomplete -F _lily lily\n",
                     command_names(tree), names_text(tree.options));
  return out;
}

std::string zsh_completion(const CompletionTree& tree) {
  std::string out =
      "#compdef lily\n"
      "# zsh completion of lily; put it into a folder of $fpath as _lily, or source it after compinit.\n"
      "_lily() {\n"
      "  local context state state_descr line\n"
      "  typeset -A opt_args\n"
      "  _arguments -C" +
      zsh_specs(tree.options, "    ") + " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n" +
      "  case $state in\n    command)\n      local -a commands\n      commands=(\n";
  for (const CompletionCommand& command : tree.commands) {
    out += fmt::format("        '{}:{}'\n", command.name, shell_quoted(command.description));
  }
  out += "      )\n      _describe command commands\n      ;;\n    argument)\n      case $words[1] in\n";
  for (const CompletionCommand& command : tree.commands) {
    out += fmt::format("        {})\n          _arguments{}", command.name, zsh_specs(command.options, "            "));
    if (!command.positional_choices.empty()) {
      out += fmt::format(" \\\n            '1:value:({})'", fmt::join(command.positional_choices, " "));
    }
    out += "\n          ;;\n";
  }
  out +=
      "      esac\n      ;;\n  esac\n}\nif [[ $funcstack[1] == _lily ]]; then\n  _lily \"$@\"\nelse\n  compdef _lily "
      "lily\nfi\n";
  return out;
}

std::string fish_completion(const CompletionTree& tree) {
  std::string out =
      "# fish completion of lily; put it into the completions folder as lily.fish, or source it.\n"
      "complete -c lily -f\n";
  for (const CompletionOption& option : tree.options) out += fish_option(option, "__fish_use_subcommand");
  for (const CompletionCommand& command : tree.commands) {
    out += fmt::format("complete -c lily -n '__fish_use_subcommand' -a {} -d '{}'\n", command.name,
                       fish_quoted(command.description));
    const std::string inside = "__fish_seen_subcommand_from " + command.name;
    for (const CompletionOption& option : command.options) out += fish_option(option, inside);
    if (!command.positional_choices.empty()) {
      out += fmt::format("complete -c lily -n '{}' -a '{}'\n", inside, fmt::join(command.positional_choices, " "));
    }
  }
  return out;
}

}  // namespace lily
