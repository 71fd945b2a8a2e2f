// An engine on the fake backend, with a vocabulary that the test chooses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/model_runner.h"
#include "tests/support/fake_backend.h"

namespace lily::test {

struct FakeEngineOptions {
  LogitScript logits = count_up(100);
  uint32_t depth = 1;
  uint32_t vocab = 128;       // logits
  uint32_t vocabulary = 100;  // real tokens
  uint32_t context = 1024;
  uint32_t sequences = 1;
  uint32_t logit_rows = 1;
  uint32_t max_chunk = 256;
  std::vector<uint32_t> stop_ids = {};
  std::vector<std::string> pieces = {};  // empty: token i is the text "<i>"
  std::vector<uint32_t> special = {};
  std::optional<uint64_t> fault_at = {};
};

struct FakeEngine {
  explicit FakeEngine(FakeEngineOptions options);

  Session session() { return std::move(engine->open_session()).value(); }
  /// Runs a request that must be accepted.
  GenerateResult run(Session& on, const GenerateRequest& request, const GenerateCallbacks& callbacks = {}) {
    return std::move(engine->generate(on, request, callbacks)).value();
  }

  std::vector<std::string> pieces;
  std::shared_ptr<FakeBackend::Record> record;
  std::unique_ptr<Engine> engine;
};

/// Ids first, first + 1, … modulo 100, as count_up(100) goes on.
std::vector<uint32_t> counting(uint32_t first, uint32_t count);

}  // namespace lily::test
