// lily perplexity: how well the model predicts a given text, position by position.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <span>

#include "app/commands.h"
#include "app/exit_status.h"
#include "app/model_options.h"
#include "app/standard_streams.h"
#include "app/terminal.h"
#include "app/token_list.h"
#include "engine/engine.h"
#include "engine/score.h"
#include "text/json_text.h"
#include "text/tokenizer.h"

namespace lily {
namespace {

constexpr uint32_t kLogitRows = 64;  // rows whose logits one pass leaves: scoring's fastest

struct PerplexityOptions {
  ModelOptions model;
  std::string ids_file;
  std::string text_file;
  uint32_t window = 0;
  bool json = false;
};

constexpr const char* kFooter =
    "The input is one sequence by default. --window N cuts it into consecutive windows of N tokens, each from a fresh "
    "state;\n"
    "a shorter rest is dropped. In the JSON object, `tokens` counts the tokens fed, `nll` has one entry for every "
    "token but\n"
    "the first of each window, `argmax` and `margin` one entry a token: the prediction of the token after it, and by "
    "how\n"
    "much its logit leads. mean_nll is in nats, perplexity is its exponential.";

struct Scores {
  Perplexity whole;
  std::vector<double> nll;
  std::vector<uint32_t> argmax;
  std::vector<double> margin;
};

std::vector<uint32_t> read_tokens(const PerplexityOptions& options) {
  if (!options.ids_file.empty()) return value_or_raise(parse_token_ids(read_input_file(options.ids_file)));
  const Tokenizer tokenizer = load_tokenizer(options.model);
  return tokenizer.encode(read_input_file(options.text_file), AddedTokens::kForbid);
}

Scores score_windows(Engine& engine, std::span<const uint32_t> tokens, uint32_t window) {
  Scores scores;
  Progress progress("scoring", 300);
  PerplexityCallbacks callbacks;
  callbacks.on_progress = [&](uint64_t done, uint64_t total) { progress.update(done, total); };
  callbacks.on_window = [&](uint32_t, std::span<const PositionScore> positions) {
    for (const PositionScore& position : positions) {
      scores.argmax.push_back(position.argmax);
      scores.margin.push_back(shortest_double(position.margin));
      scores.nll.push_back(shortest_double(position.nll));
    }
    scores.nll.pop_back();  // nothing follows the last token
    return true;
  };
  scores.whole = value_or_raise(perplexity(engine, tokens, window, callbacks));
  return scores;
}

int measure(const PerplexityOptions& options) {
  if (options.ids_file.empty() == options.text_file.empty()) {
    throw Error(ErrorCode::kUsage, "give either --token-ids FILE or --file TEXT");
  }
  const std::vector<uint32_t> tokens = read_tokens(options);
  const uint64_t least = std::max<uint64_t>(2, options.window);
  if (tokens.size() < least) {
    throw Error(ErrorCode::kUsage, "the input has {} tokens, expected at least {}", tokens.size(), least);
  }
  if (tokens.size() >= UINT32_MAX) throw Error(ErrorCode::kUsage, "the input has {} tokens, too many", tokens.size());
  const uint32_t window = options.window == 0 ? static_cast<uint32_t>(tokens.size()) : options.window;
  const uint32_t limit = load_config(model_folder(options.model)).shape.max_positions;
  const uint32_t context = options.model.context != 0 ? options.model.context : std::min(window, limit);
  if (window > context) {
    throw Error(ErrorCode::kUsage, "{} has {} tokens, but the context holds {}; a smaller --window would fit",
                options.window == 0 ? "the input" : "a window", window, context);
  }
  const std::unique_ptr<Engine> engine =
      load_engine(options.model, {.context = context, .logit_rows = kLogitRows, .quiet = options.json, .text = false});
  if (Result<void> known = check_token_ids(tokens, engine->shape().vocab); !known) raise_failure(known.failure());
  const Scores scores = score_windows(*engine, tokens, window);
  const Perplexity& whole = scores.whole;
  if (options.json) {
    ordered_json out = ordered_json::object();
    out["tokens"] = uint64_t{whole.windows} * window;
    out["windows"] = whole.windows;
    out["mean_nll"] = whole.mean_nll;
    out["perplexity"] = whole.perplexity;
    out["nll"] = scores.nll;
    out["argmax"] = scores.argmax;
    out["margin"] = scores.margin;
    write_output(compact_json(out) + "\n");
    return kExitDone;
  }
  write_output(fmt::format("perplexity {:.4f}, mean nll {:.5f} over {} tokens ({} window{} of {})\n", whole.perplexity,
                           whole.mean_nll, whole.scored_tokens, whole.windows, whole.windows == 1 ? "" : "s", window));
  return kExitDone;
}

}  // namespace

void add_perplexity(CLI::App& root, Action& action) {
  auto options = std::make_shared<PerplexityOptions>();
  CLI::App* command = root.add_subcommand("perplexity", "Score a text under the model");
  add_model_options(*command, options->model);
  CLI::Option* ids = command->add_option("--token-ids", options->ids_file,
                                         "File with token ids: a JSON array or numbers; - is standard input");
  ids->type_name("FILE");
  command->add_option("--file", options->text_file, "Text file; - is standard input")->type_name("FILE")->excludes(ids);
  command
      ->add_option("--window", options->window, "Score consecutive windows of this many tokens (default: all at once)")
      ->check(CLI::Range(2U, 1U << 30));
  command->add_flag("--json", options->json, "One JSON object on standard output");
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return measure(*options); }; });
}

}  // namespace lily
