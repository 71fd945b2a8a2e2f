#include "engine/scheduler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "engine/admission.h"
#include "engine/answer.h"
#include "engine/engine.h"
#include "engine/model_runner.h"
#include "engine/session.h"

namespace lily {
namespace {

constexpr uint32_t kUnknownToken = UINT32_MAX;  // fed from the mailbox, not read yet

}  // namespace

/// A request between add() and its end.
struct Scheduler::Active {
  uint64_t id = 0;
  Session* session = nullptr;
  GenerateRequest request;
  GenerateCallbacks callbacks;
  OnFinish on_finish;
  SampleParams params;
  Answer answer;

  bool begun = false;
  bool ended = false;
  uint32_t pending = 0;  // sampled tokens that the host has not read
  Stopwatch clock;       // from the first chunk
  double first_token_ms = 0;

  uint32_t prompt_tokens() const { return static_cast<uint32_t>(request.prompt.size()); }
  bool prefilling() const { return !begun || session->length() < prompt_tokens(); }
  /// Whether another token may be sampled before the pending ones are read.
  bool decodable() const {
    return !ended && !prefilling() && pending <= 1 && answer.tokens() + pending < answer.max_tokens();
  }
};

struct Scheduler::Draft {
  Step step;
  PlanMode mode = PlanMode::kDecode;
  InFlight record;
};

Scheduler::Scheduler(Engine& engine, uint32_t max_chunk) : engine_(engine), chunk_(max_chunk) {}

Scheduler::~Scheduler() = default;

Result<uint64_t> Scheduler::add(Session& session, GenerateRequest request, GenerateCallbacks callbacks,
                                OnFinish on_finish) {
  for (const auto& other : active_) {
    LILY_CHECK(other->session != &session || other->ended, "a second request on a session that is running one");
  }
  Result<Admission> admitted = admit(engine_, request);
  if (!admitted) {
    return admitted.failure();
  }
  Answer answer(engine_.vocabulary(), request, admitted.value().max_tokens);
  answer.result().seed = admitted.value().params.seed;
  const uint64_t id = next_id_++;
  active_.push_back(std::make_unique<Active>(Active{.id = id,
                                                    .session = &session,
                                                    .request = std::move(request),
                                                    .callbacks = std::move(callbacks),
                                                    .on_finish = std::move(on_finish),
                                                    .params = std::move(admitted.value().params),
                                                    .answer = std::move(answer),
                                                    .clock = {}}));
  return id;
}

bool Scheduler::step() {
  check_cancelled();
  Draft draft;
  bool drafted = false;
  guarded([&] {
    drafted = prefill_next_ ? draft_prefill(draft) || draft_decode(draft) : draft_decode(draft) || draft_prefill(draft);
    if (drafted) {
      prefill_next_ = draft.mode == PlanMode::kDecode;
      submit(draft);
    }
  });
  const uint32_t allowed = drafted ? std::min(engine_.backend().depth(), kStepRing - 1) - 1 : 0;
  while (in_flight_.size() > allowed) {
    finish_oldest();
  }
  sweep();
  return !active_.empty() || !in_flight_.empty();
}

void Scheduler::abandon(uint64_t id) {
  // Not find(): a request whose last token's callback threw has ended, but still waits for its sweep.
  const auto found = std::find_if(active_.begin(), active_.end(), [id](const auto& each) { return each->id == id; });
  if (found != active_.end()) {
    (*found)->session->reset();
    active_.erase(found);
  }
}

void Scheduler::check_cancelled() {
  for (const auto& request : active_) {
    const std::atomic<bool>* cancel = request->request.cancel;
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      Timings& timings = request->answer.result().timings;
      if (request->begun && request->answer.tokens() == 0) {
        timings.prefill_ms = request->clock.elapsed_ms();
        timings.prefill_tokens = request->session->length() - timings.cached_tokens;
      }
      request->answer.cancel();
      request->ended = true;
    }
  }
  sweep();
}

/// The first step of a request: what its session already holds, and the counts that penalties start from.
void Scheduler::begin(Active& request) {
  Session& session = *request.session;
  const std::span<const uint32_t> fed = session.fed();
  const std::vector<uint32_t>& prompt = request.request.prompt;
  if (fed.size() >= prompt.size() || !std::equal(fed.begin(), fed.end(), prompt.begin())) {
    session.reset();
  }
  Timings& timings = request.answer.result().timings;
  timings.cached_tokens = session.length();
  timings.prefill_tokens = request.prompt_tokens() - session.length();
  request.begun = true;
  request.clock.restart();
  if (request.params.counts_tokens()) {
    engine_.runner().write_token_counts(session.sequence(), prompt);
  }
}

/// Fills one chunk with the prompts that wait, oldest first. A run ends at its prompt's end or at a multiple of 64,
/// which is where every backend may cut.
bool Scheduler::draft_prefill(Draft& draft) {
  uint32_t budget = chunk_.rows();
  for (const auto& each : active_) {
    Active& request = *each;
    if (request.ended || !request.prefilling() || budget == 0) {
      continue;
    }
    if (!request.begun) {
      begin(request);
    }
    Session& session = *request.session;
    const uint32_t start = session.length();
    uint32_t end = request.prompt_tokens();
    if (end - start > budget) {
      end = (start + budget) / kKvBlockTokens * kKvBlockTokens;
    }
    if (end <= start) {
      continue;
    }
    if (const Result<void> reserved = session.reserve(end - start); !reserved) {
      fail(request, reserved.failure().message);
      continue;
    }
    Run run = session.next_run(end - start);
    run.first_row = draft.step.rows();
    const std::span<const uint32_t> ids = std::span(request.request.prompt).subspan(start, end - start);
    draft.step.tokens.insert(draft.step.tokens.end(), ids.begin(), ids.end());
    session.append(ids);
    draft.record.fed.push_back({.request = request.id, .end = end});
    if (end == request.prompt_tokens()) {
      run.logit_rows = 1;
      add_sample(draft, request);
    }
    draft.step.runs.push_back(run);
    budget -= end - start;
  }
  draft.mode = PlanMode::kPrefill;
  draft.record.prefill_rows = draft.step.rows();
  return draft.step.rows() > 0;
}

/// One row for every request that is decoding. The token of the step before may still be on the device; it is then
/// taken from the mailbox.
bool Scheduler::draft_decode(Draft& draft) {
  for (const auto& each : active_) {
    Active& request = *each;
    if (!request.decodable()) {
      continue;
    }
    Session& session = *request.session;
    if (const Result<void> reserved = session.reserve(1); !reserved) {
      fail(request, reserved.failure().message);
      continue;
    }
    Run run = session.next_run(1);
    run.first_row = draft.step.rows();
    run.logit_rows = 1;
    uint32_t token = kUnknownToken;
    if (request.pending == 0) {
      token = request.answer.result().token_ids.back();
      draft.step.tokens.push_back(static_cast<int32_t>(token));
    } else {
      draft.step.tokens.push_back(-1 - static_cast<int32_t>(session.sequence()));
    }
    session.append({&token, 1});
    add_sample(draft, request);
    draft.step.runs.push_back(run);
  }
  draft.mode = PlanMode::kDecode;
  return draft.step.rows() > 0;
}

/// Samples the last row of the request's run, which append() has already counted.
void Scheduler::add_sample(Draft& draft, Active& request) {
  const auto row = static_cast<uint32_t>(draft.step.samples.size());
  SampleParams params = request.params;
  params.sequence = request.session->sequence();
  params.logit_row = row;
  params.position = request.session->length();
  const Answer& answer = request.answer;
  if (answer.bans_stop_at(answer.tokens() + request.pending)) {
    params.banned.insert(params.banned.end(), answer.stop_ids().begin(), answer.stop_ids().end());
  }
  draft.step.samples.push_back(std::move(params));
  draft.record.sampled.push_back({.request = request.id, .row = row});
  ++request.pending;
}

void Scheduler::submit(Draft& draft) {
  ModelRunner& runner = engine_.runner();
  draft.step.ring = next_ring_;
  next_ring_ = (next_ring_ + 1) % kStepRing;
  draft.record.ring = draft.step.ring;
  draft.record.submitted_ms = clock_.elapsed_ms();
  draft.record.ticket = runner.forward(draft.mode, draft.step);
  if (!draft.step.samples.empty()) {
    draft.record.ticket = runner.sample(draft.step);
  }
  in_flight_.push_back(std::move(draft.record));
}

void Scheduler::finish_oldest() {
  const InFlight record = std::move(in_flight_.front());
  in_flight_.pop_front();
  std::vector<SampleResult> samples;
  const bool done = guarded([&] {
    engine_.runner().wait(record.ticket);
    if (!record.sampled.empty()) {
      samples = engine_.runner().samples(record.ring, static_cast<uint32_t>(record.sampled.size()));
    }
  });
  if (!done) {
    return;
  }
  const double now = clock_.elapsed_ms();
  if (record.prefill_rows > 0) {
    chunk_.measured(record.prefill_rows, now - std::max(record.submitted_ms, last_completion_ms_));
  }
  last_completion_ms_ = now;
  for (const Fed& fed : record.fed) {
    if (Active* request = find(fed.request); request != nullptr && request->callbacks.on_prefill_progress) {
      request->callbacks.on_prefill_progress(fed.end, request->prompt_tokens());
    }
  }
  for (const Sampled& sampled : record.sampled) {
    if (Active* request = find(sampled.request)) {
      deliver(*request, samples.at(sampled.row));
    }
  }
}

void Scheduler::deliver(Active& request, const SampleResult& sample) {
  --request.pending;
  // The sampled token's place in the sequence: the next step, where one is in flight, has already fed it.
  const uint32_t position = request.prompt_tokens() + request.answer.tokens();
  if (sample.non_finite != 0) {
    fail(request, fmt::format("the model produced a logit that is not finite at position {}", position - 1));
    return;
  }
  if (sample.token < 0 || static_cast<uint32_t>(sample.token) >= engine_.vocabulary().size) {
    fail(request, fmt::format("no token could be sampled at position {}: every token is banned", position));
    return;
  }
  if (position < request.session->length()) {
    request.session->resolve(position, static_cast<uint32_t>(sample.token));
  }
  const double now = request.clock.elapsed_ms();
  const std::string text = request.answer.push(sample);
  GenerateResult& result = request.answer.result();
  if (request.answer.tokens() == 1) {
    request.first_token_ms = now;
    result.timings.prefill_ms = now;
  } else {
    ++result.timings.decode_tokens;
    result.timings.decode_ms = now - request.first_token_ms;
  }
  request.ended = request.answer.finished();
  if (request.callbacks.on_token) {
    request.callbacks.on_token({.id = static_cast<uint32_t>(sample.token),
                                .text = text,
                                .logprobs = result.logprobs.empty() ? nullptr : &result.logprobs.back()});
  }
}

void Scheduler::fail(Active& request, std::string message) {
  request.session->reset();  // its state may hold what made it fail
  request.answer.fail(std::move(message));
  request.ended = true;
}

void Scheduler::fail_all(const std::string& message) {
  in_flight_.clear();
  for (const auto& request : active_) {
    if (!request->ended) {
      fail(*request, message);
    }
  }
}

/// Ended requests stay in active_ until here, so that nothing that walks over it loses its place; their callbacks may
/// add new ones.
void Scheduler::sweep() {
  const auto first_ended =
      std::stable_partition(active_.begin(), active_.end(), [](const auto& request) { return !request->ended; });
  std::vector<std::unique_ptr<Active>> ended(std::make_move_iterator(first_ended),
                                             std::make_move_iterator(active_.end()));
  active_.erase(first_ended, active_.end());
  for (const auto& request : ended) {
    if (request->on_finish) {
      request->on_finish(std::move(request->answer.result()));
    }
  }
}

/// Runs what may report a device fault, which ends every request.
bool Scheduler::guarded(const std::function<void()>& device_work) {
  try {
    device_work();
    return true;
  } catch (const Error& error) {
    fail_all(error.what());
    return false;
  }
}

Scheduler::Active* Scheduler::find(uint64_t id) {
  const auto found =
      std::find_if(active_.begin(), active_.end(), [id](const auto& each) { return each->id == id && !each->ended; });
  return found == active_.end() ? nullptr : found->get();
}

}  // namespace lily
