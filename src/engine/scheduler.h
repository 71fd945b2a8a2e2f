// Continuous batching: requests come and go, every decode step serves all that are decoding, prompts are fed in chunks
// between. Owns the order of steps, look-ahead and the end of requests; text and stop rules are answer.h.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/generate.h"

namespace lily {

class Engine;
class Session;

class Scheduler {
 public:
  explicit Scheduler(Engine& engine);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Called once, from step(), with the end of the request; the session is free again.
  using OnFinish = std::function<void(GenerateResult&&)>;

  /// Checks and queues a request; nothing runs before step(). `session` must outlive the request and run nothing else.
  /// kInvalid: a field is out of range (message and param name it). kTooLong: prompt longer than the context limit.
  Result<uint64_t> add(Session& session, GenerateRequest request, GenerateCallbacks callbacks, OnFinish on_finish);
  /// Advances: at most one prefill chunk and one decode step are submitted, and results that are due are handled.
  /// Returns false when there is nothing left to do. Never throws a device fault: it ends the requests with kError.
  bool step();
  bool idle() const;
  /// Requests that are queued or running.
  size_t size() const;

 private:
  struct Active;
  struct InFlight;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lily
