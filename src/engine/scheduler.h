// Continuous batching: requests come and go, every decode step serves all that are decoding, prompts are fed in chunks
// between. Owns the order of steps, look-ahead and the end of requests; text and stop rules are answer.h, what a
// request may ask for is checked in admission.h.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "engine/chunk_length.h"
#include "engine/generate.h"
#include "plan/step.h"

namespace lily {

class Engine;
class Session;

class Scheduler {
 public:
  /// `max_chunk`: the longest prefill chunk.
  Scheduler(Engine& engine, uint32_t max_chunk);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Called once, from step(), with the end of the request; the session is free again.
  using OnFinish = std::function<void(GenerateResult&&)>;

  /// Checks and queues a request; nothing runs before step(). `session` must outlive the request and run nothing else.
  /// Returns the request's number. kInvalid: a field is out of range (message and param name it). kTooLong: the prompt
  /// does not fit into the context limit.
  Result<uint64_t> add(Session& session, GenerateRequest request, GenerateCallbacks callbacks, OnFinish on_finish);
  /// Submits one step (a prefill chunk or a decode step of all decoding requests, in turn when both wait) and handles
  /// the results that are due. Returns false when there is nothing left to do. A device fault ends the requests with
  /// kError. Callbacks may add requests; one that throws leaves the other requests of that step without their token.
  bool step();
  /// Requests that are queued or running.
  size_t size() const { return active_.size(); }
  /// Drops a request without calling anybody; its session is reset.
  void abandon(uint64_t id);

 private:
  struct Active;
  /// A logit row of a submitted step and the request it belongs to.
  struct Sampled {
    uint64_t request = 0;
    uint32_t row = 0;
  };
  /// Prompt rows of a submitted step.
  struct Fed {
    uint64_t request = 0;
    uint32_t end = 0;  // prompt tokens in the session after it
  };
  struct InFlight {
    Ticket ticket;
    uint32_t ring = 0;
    uint32_t prefill_rows = 0;
    double submitted_ms = 0;
    std::vector<Fed> fed;
    std::vector<Sampled> sampled;
  };
  struct Draft;  // a step that is being put together

  void check_cancelled();
  void begin(Active& request);
  bool draft_prefill(Draft& draft);
  bool draft_decode(Draft& draft);
  void add_sample(Draft& draft, Active& request);
  void submit(Draft& draft);
  void finish_oldest();
  void deliver(Active& request, const SampleResult& sample);
  void fail(Active& request, std::string message);
  void fail_all(const std::string& message);
  void sweep();
  bool guarded(const std::function<void()>& device_work);
  Active* find(uint64_t id);

  Engine& engine_;
  std::vector<std::unique_ptr<Active>> active_;  // in order of arrival
  std::deque<InFlight> in_flight_;
  ChunkLength chunk_;
  Stopwatch clock_;
  double last_completion_ms_ = 0;
  uint64_t next_id_ = 1;
  uint32_t next_ring_ = 0;
  bool prefill_next_ = true;
};

}  // namespace lily
