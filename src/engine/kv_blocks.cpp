#include "engine/kv_blocks.h"

#include <algorithm>

#include "base/error.h"

namespace lily {
namespace {

uint32_t blocks_for(uint32_t tokens) {
  return tokens / kKvBlockTokens + (tokens % kKvBlockTokens == 0 ? 0U : 1U);
}

}  // namespace

KvBlockPool::KvBlockPool(uint32_t capacity) : references_(capacity, 0) {
  free_.reserve(capacity);
  for (uint32_t block = capacity; block > 0; --block) {
    free_.push_back(block - 1);  // low numbers go out first, so that an unused end of the pool stays untouched memory
  }
}

uint32_t KvBlockPool::allocate() {
  LILY_CHECK(!free_.empty(), "allocate() from a pool of {} blocks without a free one", capacity());
  const uint32_t block = free_.back();
  free_.pop_back();
  references_[block] = 1;
  return block;
}

void KvBlockPool::retain(uint32_t block) {
  LILY_CHECK(block < capacity() && references_[block] > 0, "retain() of block {}, which is free", block);
  ++references_[block];
}

void KvBlockPool::release(uint32_t block) {
  LILY_CHECK(block < capacity() && references_[block] > 0, "release() of block {}, which is free", block);
  if (--references_[block] == 0) {
    free_.push_back(block);
  }
}

uint32_t BlockList::needed(const KvBlockPool& pool, uint32_t length, uint32_t rows) const {
  const auto held = static_cast<uint32_t>(blocks_.size());
  const uint32_t wanted = blocks_for(length + rows);
  const uint32_t growth = wanted > held ? wanted - held : 0;
  const bool shared_tail =
      rows > 0 && length % kKvBlockTokens != 0 && pool.references(blocks_.at(length / kKvBlockTokens)) > 1;
  return growth + (shared_tail ? 1U : 0U);
}

BlockList::Change BlockList::extend(KvBlockPool& pool, uint32_t length, uint32_t rows) {
  LILY_CHECK(length <= blocks_.size() * kKvBlockTokens, "{} tokens in {} blocks", length, blocks_.size());
  Change change;
  change.first = static_cast<uint32_t>(blocks_.size());
  if (rows > 0 && length % kKvBlockTokens != 0) {
    const uint32_t tail = length / kKvBlockTokens;
    const uint32_t block = blocks_[tail];
    if (pool.references(block) > 1) {
      blocks_[tail] = pool.allocate();
      pool.release(block);
      change.copies.push_back({.from = block, .to = blocks_[tail]});
      change.first = tail;
    }
  }
  const uint32_t wanted = blocks_for(length + rows);
  while (blocks_.size() < wanted) {
    blocks_.push_back(pool.allocate());
  }
  change.count = static_cast<uint32_t>(blocks_.size()) - change.first;
  return change;
}

BlockList BlockList::fork(KvBlockPool& pool, uint32_t length) const {
  BlockList copy;
  const uint32_t count = blocks_for(length);
  LILY_CHECK(count <= blocks_.size(), "fork at {} tokens of {} blocks", length, blocks_.size());
  copy.blocks_.assign(blocks_.begin(), blocks_.begin() + count);
  for (const uint32_t block : copy.blocks_) {
    pool.retain(block);
  }
  return copy;
}

void BlockList::clear(KvBlockPool& pool) {
  // Last first, so that a pool used by one sequence hands the same blocks out again in the same order.
  std::for_each(blocks_.rbegin(), blocks_.rend(), [&](uint32_t block) { pool.release(block); });
  blocks_.clear();
}

}  // namespace lily
