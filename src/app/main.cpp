// The entry: signals, the command line, and every way the program can end.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <exception>
#include <new>
#include <string>

#include "app/commands.h"
#include "app/exit_status.h"
#include "app/standard_streams.h"
#include "app/terminal.h"

namespace {

void report(std::string_view message) {
  const std::string shown(lily::errors_are_terminal() ? lily::without_controls(message) : message);
  lily::write_error_line(fmt::format("lily: error: {}", shown));
}

/// The help of the command that was asked about, the version, or a usage error in one sentence.
int end_of_parse(const CLI::App& root, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) {
    const auto chosen = root.get_subcommands();
    lily::write_output(chosen.empty() ? root.help() : chosen.front()->help(root.get_name()));
    return lily::kExitDone;
  }
  if (dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr) {
    lily::write_output(error.what());
    return lily::kExitDone;
  }
  std::string message = error.what();
  for (char& c : message) {
    if (c == '\n') c = ' ';
  }
  const auto chosen = root.get_subcommands();
  report(fmt::format("{}; see lily {}--help", message, chosen.empty() ? "" : chosen.front()->get_name() + " "));
  return lily::kExitUnusable;
}

int run_program(int argc, char** argv) {
  lily::open_missing_streams();
  lily::install_signal_handlers();
  lily::use_utf8_locale();
  CLI::App root("", "lily");
  lily::Action action;
  lily::build_command_line(root, action);
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_of_parse(root, error);
  }
  if (!action) {
    report("no command given; see lily --help");
    return lily::kExitUnusable;
  }
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const lily::Error& error) {
    report(error.what());
    return error.code() == lily::ErrorCode::kRuntime ? lily::kExitFailed : lily::kExitUnusable;
  } catch (const std::bad_alloc&) {
    report("out of memory");
    return lily::kExitFailed;
  } catch (const std::exception& error) {
    report(error.what());
    return lily::kExitFailed;
  }
}
