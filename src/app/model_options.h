// The options that say which model runs and how: their flags, the default model, and loading it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "app/backends.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace lily {

struct ModelOptions {
  std::string model;  // empty: the bundled demo model
  BackendOptions backend;
  std::string activations = "bf16";
  uint32_t context = 0;
};

/// -m/--model alone, for commands that read files but run nothing.
void add_model_folder(CLI::App& command, ModelOptions& options);
/// -m/--model, --ctx, --threads, --backend, --activations, --simd.
void add_model_options(CLI::App& command, ModelOptions& options);

/// The folder that was named, whatever it holds, or the demo model's. Throws Error(kIo) when none was given and no demo
/// model is found.
std::filesystem::path model_folder(const ModelOptions& options);

/// The model's tokenizer. Throws Error, as loading the model does when the folder is none.
Tokenizer load_tokenizer(const ModelOptions& options);

struct LoadOptions {
  uint32_t context = 0;     // used when the user gave no --ctx; 0: the engine's default
  uint32_t logit_rows = 0;  // as in EngineOptions
  bool quiet = false;       // no progress
  bool text = true;         // false: a folder without a tokenizer will do, and nothing has text
};

/// Loads the model with a progress line on a terminal. Throws Error.
std::unique_ptr<Engine> load_engine(const ModelOptions& options, const LoadOptions& load);

}  // namespace lily
