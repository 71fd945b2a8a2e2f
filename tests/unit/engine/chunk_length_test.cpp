#include "engine/chunk_length.h"

#include <gtest/gtest.h>

namespace lily {
namespace {

TEST(ChunkLength, StartsShortAndDoublesWhileChunksAreQuick) {
  ChunkLength chunk(512);
  EXPECT_EQ(chunk.rows(), 64U);
  chunk.measured(64, 1);
  EXPECT_EQ(chunk.rows(), 128U);
  chunk.measured(128, 2);
  chunk.measured(256, 4);
  chunk.measured(512, 8);
  EXPECT_EQ(chunk.rows(), 512U);
}

TEST(ChunkLength, SettlesWhereAChunkTakesTheTarget) {
  ChunkLength chunk(4096);
  for (int i = 0; i < 20; ++i) {
    chunk.measured(chunk.rows(), chunk.rows() * 0.5);  // half a millisecond a row: 400 rows in 200 ms
  }
  EXPECT_EQ(chunk.rows(), 384U);
}

TEST(ChunkLength, NeverGoesBelowOneBlock) {
  ChunkLength chunk(512);
  chunk.measured(64, 60'000);
  EXPECT_EQ(chunk.rows(), 64U);
}

TEST(ChunkLength, IgnoresTheShortRestOfAPrompt) {
  ChunkLength chunk(512);
  for (int i = 0; i < 4; ++i) {
    chunk.measured(chunk.rows(), 1);
  }
  chunk.measured(3, 50);
  EXPECT_EQ(chunk.rows(), 512U);
}

TEST(ChunkLength, SurvivesAClockThatDidNotMove) {
  ChunkLength chunk(128);
  chunk.measured(64, 0);
  EXPECT_EQ(chunk.rows(), 128U);
}

}  // namespace
}  // namespace lily
