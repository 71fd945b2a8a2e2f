// lily tokenize: text to token ids, and back with --decode.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "app/commands.h"
#include "app/exit_status.h"
#include "app/model_options.h"
#include "app/standard_streams.h"
#include "app/token_list.h"
#include "text/json_text.h"
#include "text/tokenizer.h"

namespace lily {
namespace {

struct TokenizeOptions {
  ModelOptions model;
  bool no_special = false;
  bool decode = false;
  bool json = false;
};

constexpr const char* kFooter =
    "Text is read from standard input, byte for byte; impossible UTF-8 counts as U+FFFD. With --decode, standard input "
    "holds\n"
    "ids: a JSON array, or numbers separated by commas or white space.";

int encode(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  const std::vector<TokenId> ids =
      tokenizer.encode(read_input(), options.no_special ? AddedTokens::kForbid : AddedTokens::kAllow);
  ordered_json pieces = ordered_json::array();
  for (const TokenId id : ids) pieces.push_back(valid_utf8(tokenizer.piece(id)));
  if (options.json) {
    write_output(compact_json({{"ids", ids}, {"pieces", pieces}}) + "\n");
    return kExitDone;
  }
  std::string lines;
  for (size_t i = 0; i < ids.size(); ++i) lines += fmt::format("{:>7}  {}\n", ids[i], compact_json(pieces[i]));
  write_output(lines);
  return kExitDone;
}

int decode(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  const std::vector<uint32_t> ids = value_or_raise(parse_token_ids(read_input()));
  if (Result<void> known = check_token_ids(ids, static_cast<uint32_t>(tokenizer.size())); !known) {
    raise_failure(known.failure());
  }
  std::vector<TokenId> kept;
  for (const TokenId id : ids) {
    if (!options.no_special || !tokenizer.is_special(id)) kept.push_back(id);
  }
  const std::string text = tokenizer.decode(kept);
  write_output(options.json ? compact_json({{"ids", ids}, {"text", text}}) + "\n" : text);
  return kExitDone;
}

}  // namespace

void add_tokenize(CLI::App& root, Action& action) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = root.add_subcommand("tokenize", "Show the tokens of a text");
  add_model_folder(*command, options->model);
  command->add_flag("--no-special", options->no_special,
                    "Special tokens spelled in the text are ordinary text; with --decode they are left out");
  command->add_flag("--decode", options->decode, "Turn ids back into text");
  command->add_flag("--json", options->json, "One JSON object on standard output: ids and pieces, or ids and text");
  command->footer(kFooter);
  command->callback([options, &action] {
    action = [options] {
      const Tokenizer tokenizer = load_tokenizer(options->model);
      return options->decode ? decode(*options, tokenizer) : encode(*options, tokenizer);
    };
  });
}

}  // namespace lily
