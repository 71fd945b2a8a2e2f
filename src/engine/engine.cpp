#include "engine/engine.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/model_runner.h"
#include "model/weights.h"
#include "plan/weight_table.h"
#include "text/tokenizer.h"

namespace lily {
namespace {

constexpr uint32_t kMaxSequences = 1024;

void check_options(const EngineOptions& options) {
  if (options.max_sequences == 0 || options.max_sequences > kMaxSequences) {
    throw Error(ErrorCode::kUsage, "max_sequences is {}, expected 1 to {}", options.max_sequences, kMaxSequences);
  }
  if (options.max_chunk < kKvBlockTokens || options.max_chunk % kKvBlockTokens != 0) {
    throw Error(ErrorCode::kUsage, "max_chunk is {}, expected a multiple of {}", options.max_chunk, kKvBlockTokens);
  }
}

uint32_t choose_context(uint32_t asked, const ModelShape& shape) {
  if (asked == 0) {
    return std::min(shape.max_positions, kDefaultContext);
  }
  if (asked > shape.max_positions) {
    log_warning("a context of {} tokens was asked for, and the model has {} positions: using {}", asked,
                shape.max_positions, shape.max_positions);
  }
  return std::min(asked, shape.max_positions);
}

/// Every end-of-turn id that any file of the model names.
std::vector<uint32_t> stop_set(const ModelConfig& config, const Tokenizer* tokenizer) {
  std::vector<uint32_t> ids = config.eos_ids;
  if (tokenizer != nullptr) {
    if (const auto id = tokenizer->eos_token()) {
      ids.push_back(*id);
    }
    if (config.eos_token) {
      if (const auto id = tokenizer->find_added(*config.eos_token)) {
        ids.push_back(*id);
      }
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.empty()) {
    log_warning("no file of the model names a stop token: answers end at their token limit");
  }
  log_debug("stop tokens: {}", fmt::join(ids, ", "));
  return ids;
}

Vocabulary vocabulary_of(const ModelConfig& config, const Tokenizer* tokenizer) {
  Vocabulary vocabulary;
  vocabulary.size = config.shape.vocab;
  if (tokenizer != nullptr) {
    vocabulary.size = static_cast<uint32_t>(tokenizer->size());
    vocabulary.piece = [tokenizer](uint32_t id) { return tokenizer->piece(id); };
    vocabulary.is_special = [tokenizer](uint32_t id) { return tokenizer->is_special(id); };
  }
  vocabulary.stop_ids = stop_set(config, tokenizer);
  return vocabulary;
}

std::unique_ptr<Tokenizer> load_tokenizer(const EngineOptions& options, const ModelShape& shape) {
  if (!options.load_tokenizer) {
    return nullptr;
  }
  auto tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(options.model));
  if (tokenizer->size() > shape.vocab) {
    throw Error(ErrorCode::kTokenizer, "{}: the tokenizer has ids up to {}, and the model has {} embedding rows",
                options.model.string(), tokenizer->size() - 1, shape.vocab);
  }
  return tokenizer;
}

}  // namespace

std::unique_ptr<Engine> Engine::load(const EngineOptions& options, std::unique_ptr<Backend> backend,
                                     const LoadProgress& progress) {
  const Stopwatch clock;
  check_options(options);
  auto weights = std::make_unique<ModelWeights>(load_weights(options.model));
  const ModelShape& shape = weights->shape();
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options, shape);
  const uint32_t context = choose_context(options.context, shape);
  const StateSizes sizes = state_sizes(options.max_sequences, context, options.logit_rows);
  check_memory(estimate_memory(shape, sizes, options.activation, weights->tensor_bytes(), options.max_chunk), context,
               options.memory_limit == 0 ? usable_memory_bytes() : options.memory_limit);

  const auto on_adopted = [&](const WeightView& view, uint64_t done, uint64_t total) {
    for (const QuantTensor* part : view.parts) {
      weights->release(*part);  // the backend has its own copy now
    }
    if (progress) {
      progress(done, total);
    }
  };
  const RunnerOptions runner_options = {.sizes = sizes,
                                        .activation = options.activation,
                                        .max_chunk = options.max_chunk,
                                        .capture_hidden = options.capture_hidden};
  auto runner =
      std::make_unique<ModelRunner>(std::move(backend), shape, weight_table(*weights), runner_options, on_adopted);
  auto engine = std::make_unique<Engine>(std::move(runner), vocabulary_of(weights->config(), tokenizer.get()),
                                         weights->config().generation, context);
  engine->config_ = weights->config();
  engine->weights_ = std::move(weights);
  engine->tokenizer_ = std::move(tokenizer);
  engine->load_ms_ = clock.elapsed_ms();
  return engine;
}

Engine::Engine(std::unique_ptr<ModelRunner> runner, Vocabulary vocabulary, const GenerationDefaults& defaults,
               uint32_t context)
    : runner_(std::move(runner)),
      vocabulary_(std::move(vocabulary)),
      defaults_(lily::default_sampling(defaults)),
      context_(context),
      sessions_(std::make_unique<SessionPool>(*runner_)),
      scheduler_(std::make_unique<Scheduler>(*this, runner_->options().max_chunk)) {
  const StateSizes& sizes = runner_->sizes();
  LILY_CHECK(context > 0 && context <= uint64_t{sizes.blocks_a_sequence} * kKvBlockTokens,
             "a context of {} tokens in {} blocks", context, sizes.blocks_a_sequence);
  LILY_CHECK(vocabulary_.size > 0 && vocabulary_.size <= runner_->shape().vocab, "{} tokens for {} logits",
             vocabulary_.size, runner_->shape().vocab);
}

Engine::~Engine() = default;

const ModelShape& Engine::shape() const {
  return runner_->shape();
}

const Tokenizer& Engine::tokenizer() const {
  LILY_CHECK(tokenizer_ != nullptr, "the engine was loaded without a tokenizer");
  return *tokenizer_;
}

Backend& Engine::backend() {
  return runner_->backend();
}

BackendMemory Engine::memory() const {
  return runner_->backend().memory();
}

Result<GenerateResult> Engine::generate(Session& session, const GenerateRequest& request,
                                        const GenerateCallbacks& callbacks) {
  std::optional<GenerateResult> result;
  const Result<uint64_t> id =
      scheduler_->add(session, request, callbacks, [&result](GenerateResult&& end) { result = std::move(end); });
  if (!id) {
    return id.failure();
  }
  try {
    while (!result) {
      scheduler_->step();
    }
    // A look-ahead step is brought home too, unless others go on: the machine is idle between requests.
    while (scheduler_->size() == 0 && scheduler_->step()) {
    }
  } catch (...) {
    scheduler_->abandon(id.value());
    throw;
  }
  return std::move(*result);
}

}  // namespace lily
