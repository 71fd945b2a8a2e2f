#include "engine/session.h"

#include <utility>

#include "base/error.h"
#include "engine/model_runner.h"

namespace lily {
namespace {

std::vector<uint32_t> descending(uint32_t count) {
  std::vector<uint32_t> numbers;
  for (uint32_t i = count; i > 0; --i) {
    numbers.push_back(i - 1);
  }
  return numbers;
}

}  // namespace

SessionPool::SessionPool(ModelRunner& runner)
    : runner_(runner),
      blocks_(runner.sizes().kv_blocks),
      free_sequences_(descending(runner.sizes().sequences)),
      free_states_(descending(runner.sizes().state_slots)) {}

Result<Session> SessionPool::open() {
  if (free_sequences_.empty() || free_states_.empty()) {
    return Failure{FailureKind::kBusy, fmt::format("all {} sequences are in use", runner_.sizes().sequences), {}};
  }
  const uint32_t sequence = free_sequences_.back();
  const uint32_t state = free_states_.back();
  free_sequences_.pop_back();
  free_states_.pop_back();
  return Session(*this, sequence, state);
}

Session::Session(SessionPool& pool, uint32_t sequence, uint32_t state)
    : pool_(&pool), sequence_(sequence), state_(state) {}

Session::Session(Session&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      sequence_(other.sequence_),
      state_(other.state_),
      fed_(std::move(other.fed_)),
      blocks_(std::move(other.blocks_)) {}

Session& Session::operator=(Session&& other) noexcept {
  if (this != &other) {
    close();
    pool_ = std::exchange(other.pool_, nullptr);
    sequence_ = other.sequence_;
    state_ = other.state_;
    fed_ = std::move(other.fed_);
    blocks_ = std::move(other.blocks_);
  }
  return *this;
}

Session::~Session() {
  close();
}

void Session::close() {
  if (pool_ != nullptr) {
    reset();
    pool_->free_sequences_.push_back(sequence_);
    pool_->free_states_.push_back(state_);
    pool_ = nullptr;
  }
}

void Session::reset() {
  fed_.clear();
  blocks_.clear(pool_->blocks_);
}

Result<Session> Session::fork() {
  Result<Session> opened = pool_->open();
  if (!opened) {
    return opened;
  }
  Session& copy = opened.value();
  copy.fed_ = fed_;
  copy.blocks_ = blocks_.fork(pool_->blocks_, length());
  ModelRunner& runner = pool_->runner_;
  runner.write_block_table(copy.sequence_, 0, copy.blocks_.blocks());
  if (length() > 0) {
    runner.copy_state(state_, copy.state_);
  }
  return opened;
}

Result<void> Session::reserve(uint32_t rows) {
  KvBlockPool& pool = pool_->blocks_;
  const uint32_t needed = blocks_.needed(pool, length(), rows);
  if (needed > pool.available()) {
    return Failure{FailureKind::kBusy,
                   fmt::format("the KV cache is full: {} blocks of {} tokens needed, {} of {} are free", needed,
                               kKvBlockTokens, pool.available(), pool.capacity()),
                   {}};
  }
  const BlockList::Change change = blocks_.extend(pool, length(), rows);
  for (const BlockCopy copy : change.copies) {
    pool_->runner_.copy_block(copy);
  }
  if (change.count > 0) {
    pool_->runner_.write_block_table(sequence_, change.first, blocks_.blocks().subspan(change.first, change.count));
  }
  return {};
}

Run Session::next_run(uint32_t rows) const {
  Run run;
  run.sequence = sequence_;
  run.state_in = state_;
  run.state_out = state_;
  run.first_position = length();
  run.rows = rows;
  return run;
}

void Session::append(std::span<const uint32_t> tokens) {
  fed_.insert(fed_.end(), tokens.begin(), tokens.end());
  LILY_CHECK(fed_.size() <= blocks_.blocks().size() * kKvBlockTokens, "{} tokens fed into {} blocks", fed_.size(),
             blocks_.blocks().size());
}

void Session::resolve(uint32_t position, uint32_t token) {
  fed_.at(position) = token;
}

}  // namespace lily
