#include "app/model_options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <system_error>

#include "app/build_info.h"
#include "app/terminal.h"
#include "base/error.h"
#include "model/config.h"

namespace lily {

void add_model_folder(CLI::App& command, ModelOptions& options) {
  command.add_option("-m,--model", options.model, "Model folder (default: the bundled demo model)")
      ->envname("LILY_MODEL")
      ->type_name("DIR");
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  add_model_folder(command, options);
  command
      .add_option(
          "--ctx", options.context,
          fmt::format("Tokens the context holds, prompt and answer together (default: the model's limit, at most {})",
                      kDefaultContext))
      ->check(CLI::Range(1U, 1U << 30));
  command.add_option("--threads", options.backend.threads, "CPU threads (default: one a physical core)")
      ->check(CLI::Range(1U, 1024U));
  command.add_option("--backend", options.backend.name, "Where the model runs: auto or cpu")
      ->type_name("NAME:{auto,cpu}");
  command.add_option("--activations", options.activations, "Number type of activations: bf16, or f32 for comparisons")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->group("Advanced");
  command
      .add_option("--simd", options.backend.simd,
                  "Instruction set level: portable, avx2, avx512 or neon (default: the best)")
      ->type_name("LEVEL:{portable,avx2,avx512,neon}")
      ->group("Advanced");
}

std::filesystem::path model_folder(const ModelOptions& options) {
  std::error_code error;
  if (!options.model.empty()) return options.model;
  std::string tried;
  for (const std::filesystem::path& folder : demo_model_folders(executable_path())) {
    if (std::filesystem::exists(folder / "config.json", error)) return folder;
    tried += (tried.empty() ? "" : " and ") + folder.string();
  }
  throw Error(ErrorCode::kIo, "no model given, and the demo model is not in {}; give one with -m or LILY_MODEL", tried);
}

Tokenizer load_tokenizer(const ModelOptions& options) {
  const std::filesystem::path folder = model_folder(options);
  std::error_code error;
  // A folder with a tokenizer alone will do; what else is wrong with it is said in the words of the model's loader.
  if (!std::filesystem::exists(folder / "tokenizer.json", error)) check_model_folder(folder);
  return Tokenizer::load(folder);
}

std::unique_ptr<Engine> load_engine(const ModelOptions& options, const LoadOptions& load) {
  EngineOptions engine;
  engine.model = model_folder(options);
  engine.context = options.context != 0 ? options.context : load.context;
  engine.activation = options.activations == "f32" ? ActivationType::kF32 : ActivationType::kBf16;
  engine.logit_rows = load.logit_rows;
  std::error_code error;
  engine.load_tokenizer = load.text || std::filesystem::exists(engine.model / "tokenizer.json", error);
  std::unique_ptr<Backend> backend = make_backend(options.backend);
  if (load.quiet) return Engine::load(engine, std::move(backend));
  Progress progress("loading", 300);
  return Engine::load(engine, std::move(backend), [&](uint64_t done, uint64_t total) {
    progress.update(done, total, fmt::format("{} of {}", format_bytes(done), format_bytes(total)));
  });
}

}  // namespace lily
