#include "tests/unit/engine/fake_engine.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lily::test {

FakeEngine::FakeEngine(FakeEngineOptions options) : pieces(std::move(options.pieces)) {
  for (uint32_t id = static_cast<uint32_t>(pieces.size()); id < options.vocabulary; ++id) {
    pieces.push_back(fmt::format("<{}>", id));
  }
  const ModelShape shape = tiny_shape(options.vocab, options.context);
  auto backend = std::make_unique<FakeBackend>(
      FakeBackend::Options{.depth = options.depth, .logits = std::move(options.logits), .fault_at = options.fault_at});
  record = backend->record();
  auto runner = std::make_unique<ModelRunner>(
      std::move(backend), shape, tiny_weights(shape),
      RunnerOptions{.sizes = state_sizes(options.sequences, options.context, options.logit_rows),
                    .max_chunk = options.max_chunk});
  Vocabulary vocabulary;
  vocabulary.size = options.vocabulary;
  vocabulary.piece = [this](uint32_t id) { return std::string_view(pieces.at(id)); };
  vocabulary.is_special = [special = options.special](uint32_t id) {
    return std::find(special.begin(), special.end(), id) != special.end();
  };
  vocabulary.stop_ids = options.stop_ids;
  GenerationDefaults greedy;
  greedy.do_sample = false;
  engine = std::make_unique<Engine>(std::move(runner), std::move(vocabulary), greedy, options.context);
}

std::vector<uint32_t> counting(uint32_t first, uint32_t count) {
  std::vector<uint32_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  std::transform(ids.begin(), ids.end(), ids.begin(), [](uint32_t id) { return id % 100; });
  return ids;
}

}  // namespace lily::test
