#include "engine/kv_blocks.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace lily {
namespace {

TEST(KvBlockPool, HandsOutEveryBlockOnceAndTakesItBackAtTheLastRelease) {
  KvBlockPool pool(3);
  const std::set<uint32_t> blocks = {pool.allocate(), pool.allocate(), pool.allocate()};
  EXPECT_EQ(blocks, (std::set<uint32_t>{0, 1, 2}));
  EXPECT_EQ(pool.available(), 0U);
  pool.retain(1);
  pool.release(1);
  EXPECT_EQ(pool.available(), 0U);
  pool.release(1);
  EXPECT_EQ(pool.available(), 1U);
  EXPECT_EQ(pool.allocate(), 1U);
}

TEST(KvBlockPoolDeathTest, RefusesToFreeTwice) {
  KvBlockPool pool(1);
  EXPECT_DEATH(pool.release(0), "block 0, which is free");
}

TEST(BlockList, GrowsByWholeBlocksOnly) {
  KvBlockPool pool(4);
  BlockList list;
  EXPECT_EQ(list.extend(pool, 0, 1).count, 1U);
  EXPECT_EQ(list.extend(pool, 1, 63).count, 0U);
  const BlockList::Change change = list.extend(pool, 64, 65);
  EXPECT_EQ(change.first, 1U);
  EXPECT_EQ(change.count, 2U);
  EXPECT_TRUE(change.copies.empty());
  list.clear(pool);
  EXPECT_EQ(pool.available(), 4U);
}

TEST(BlockList, CopiesOnlyThePartlyFilledBlockOfAForkAndOnlyOnce) {
  KvBlockPool pool(8);
  BlockList parent;
  parent.extend(pool, 0, 100);
  BlockList child = parent.fork(pool, 100);
  EXPECT_EQ(pool.available(), 6U);
  EXPECT_EQ(child.needed(pool, 100, 1), 1U);
  const BlockList::Change first = child.extend(pool, 100, 1);
  ASSERT_EQ(first.copies.size(), 1U);
  EXPECT_EQ(first.copies[0].from, parent.blocks()[1]);
  EXPECT_EQ(first.copies[0].to, child.blocks()[1]);
  EXPECT_EQ(first.first, 1U);
  EXPECT_EQ(parent.blocks()[0], child.blocks()[0]);
  EXPECT_TRUE(parent.extend(pool, 100, 1).copies.empty()) << "the parent is alone with its block again";
}

TEST(BlockList, SharesEverythingWhenTheForkIsAtABlockEdge) {
  KvBlockPool pool(8);
  BlockList parent;
  parent.extend(pool, 0, 128);
  BlockList child = parent.fork(pool, 128);
  const BlockList::Change change = child.extend(pool, 128, 1);
  EXPECT_TRUE(change.copies.empty());
  EXPECT_EQ(change.first, 2U);
  EXPECT_EQ(change.count, 1U);
}

// A model of what the blocks hold: token i of a list must always be the one that was written there by that list or
// inherited at a fork, whatever the others do.
TEST(BlockList, RandomGrowthForksAndFreesNeverMixSequences) {
  constexpr uint32_t kBlocks = 20;
  struct Sequence {
    BlockList blocks;
    std::vector<uint32_t> tokens;
  };
  auto random = [engine = std::mt19937(7)]() mutable { return static_cast<uint32_t>(engine()); };
  KvBlockPool pool(kBlocks);
  std::vector<std::vector<uint32_t>> memory(kBlocks, std::vector<uint32_t>(kKvBlockTokens, 0));
  std::vector<Sequence> sequences(1);
  uint32_t next_token = 1;
  uint32_t refused = 0;
  uint32_t copies = 0;
  for (int round = 0; round < 4000; ++round) {
    const size_t which = random() % sequences.size();
    const uint32_t action = random() % 10;
    if (action < 6) {
      Sequence& sequence = sequences[which];
      const auto length = static_cast<uint32_t>(sequence.tokens.size());
      const uint32_t rows = 1 + (random() % 90);
      if (sequence.blocks.needed(pool, length, rows) > pool.available()) {
        ++refused;
        sequence.blocks.clear(pool);
        sequence.tokens.clear();
        continue;
      }
      const uint32_t before = pool.available();
      const uint32_t needed = sequence.blocks.needed(pool, length, rows);
      for (const BlockCopy copy : sequence.blocks.extend(pool, length, rows).copies) {
        memory[copy.to] = memory[copy.from];
        ++copies;
      }
      ASSERT_EQ(before - pool.available(), needed);
      for (uint32_t i = 0; i < rows; ++i) {
        const uint32_t position = length + i;
        const uint32_t block = sequence.blocks.blocks()[position / kKvBlockTokens];
        ASSERT_EQ(pool.references(block), 1U) << "a shared block is written";
        memory[block][position % kKvBlockTokens] = next_token;
        sequence.tokens.push_back(next_token++);
      }
    } else if (action < 8 && sequences.size() < 8) {
      const Sequence& from = sequences[which];
      const auto length = static_cast<uint32_t>(from.tokens.size());
      const uint32_t keep = length == 0 ? 0 : random() % (length + 1);
      Sequence child{from.blocks.fork(pool, keep), {from.tokens.begin(), from.tokens.begin() + keep}};
      sequences.push_back(std::move(child));
    } else if (sequences.size() > 1) {
      sequences[which].blocks.clear(pool);
      sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(which));
    }
    std::map<uint32_t, uint32_t> references;
    for (const Sequence& sequence : sequences) {
      for (const uint32_t block : sequence.blocks.blocks()) {
        ++references[block];
      }
      for (size_t position = 0; position < sequence.tokens.size(); ++position) {
        const uint32_t block = sequence.blocks.blocks()[position / kKvBlockTokens];
        ASSERT_EQ(memory[block][position % kKvBlockTokens], sequence.tokens[position]) << "round " << round;
      }
    }
    ASSERT_EQ(references.size() + pool.available(), kBlocks);
    for (const auto& [block, count] : references) {
      ASSERT_EQ(pool.references(block), count);
    }
  }
  EXPECT_GT(refused, 10U) << "the pool was never full";
  EXPECT_GT(copies, 100U) << "hardly anything was copied on write";
}

}  // namespace
}  // namespace lily
