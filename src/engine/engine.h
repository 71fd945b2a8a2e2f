// A loaded model, ready to generate: configuration, vocabulary, runner, sessions. Start reading the engine here.
// One thread drives an engine; only the cancel flags of requests may be touched from others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "engine/generate.h"
#include "engine/memory_estimate.h"
#include "engine/scheduler.h"
#include "engine/session.h"
#include "model/config.h"
#include "plan/plan.h"

namespace lily {

class ModelRunner;
class ModelWeights;
class Tokenizer;

struct EngineOptions {
  std::filesystem::path model;
  uint32_t context = 0;        // tokens a sequence may hold; 0: the model's limit, at most kDefaultContext
  uint32_t max_sequences = 1;  // sessions that may be open at once
  ActivationType activation = ActivationType::kBf16;
  uint32_t max_chunk = 512;     // longest prefill chunk, a multiple of 64
  uint32_t logit_rows = 0;      // rows of the logits buffer; 0: one a sequence. Scoring is faster with 64
  bool capture_hidden = false;  // keep the residual stream of every layer, for score()
  bool load_tokenizer = true;   // false: ids only, no text and no stop strings
  uint64_t memory_limit = 0;    // bytes the model may need; 0: what the machine has
};

inline constexpr uint32_t kDefaultContext = 32768;

/// Called while weights are adopted: bytes done, bytes in all.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

/// What the engine knows of the vocabulary; made from a tokenizer, or by a test.
struct Vocabulary {
  uint32_t size = 0;                                // ids at or above are padding rows of the model and are never drawn
  std::function<std::string_view(uint32_t)> piece;  // raw bytes of a token; empty function: no text
  std::function<bool(uint32_t)> is_special;         // tokens that give no text
  std::vector<uint32_t> stop_ids;                   // tokens that end an answer
};

class Engine {
 public:
  /// Loads the checkpoint, checks that the context fits in memory, and hands the weights to the backend.
  /// Throws Error with one sentence (kIo, kConfig, kCheckpoint, kTokenizer, kMemory, kUnsupported, kUsage).
  static std::unique_ptr<Engine> load(const EngineOptions& options, std::unique_ptr<Backend> backend,
                                      const LoadProgress& progress = {});
  /// An engine around a runner, without files.
  Engine(std::unique_ptr<ModelRunner> runner, Vocabulary vocabulary, const GenerationDefaults& defaults,
         uint32_t context);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelShape& shape() const;
  /// Empty config for an engine made without files.
  const ModelConfig& config() const { return config_; }
  /// Aborts for an engine without one (has_tokenizer()).
  const Tokenizer& tokenizer() const;
  bool has_tokenizer() const { return tokenizer_ != nullptr; }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The model's own sampling defaults.
  const SamplingOptions& default_sampling() const { return defaults_; }
  /// Tokens a sequence may hold, prompt and answer together.
  uint32_t context_limit() const { return context_; }
  Backend& backend();
  BackendMemory memory() const;
  /// How long load() took, in milliseconds.
  double load_ms() const { return load_ms_; }

  /// A new empty session; kBusy when max_sequences are open. Sessions must be gone before the engine is.
  Result<Session> open_session() { return sessions_->open(); }
  /// Runs one request to its end: the scheduler with a single request. Other requests of the scheduler go on meanwhile.
  /// A failure (kInvalid, kTooLong) means that nothing has run; a fault on the way is finish_reason kError.
  Result<GenerateResult> generate(Session& session, const GenerateRequest& request,
                                  const GenerateCallbacks& callbacks = {});
  Scheduler& scheduler() { return *scheduler_; }
  ModelRunner& runner() { return *runner_; }

 private:
  std::unique_ptr<ModelWeights> weights_;
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ModelConfig config_;
  Vocabulary vocabulary_;
  SamplingOptions defaults_;
  uint32_t context_;
  double load_ms_ = 0;
  std::unique_ptr<SessionPool> sessions_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace lily
