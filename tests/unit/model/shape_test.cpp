#include "model/shape.h"

#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"

namespace lily {
namespace {

TEST(ModelShape, The35bShapeHasThePublishedSizes) {
  const ModelShape shape = test::shape_35b(40);
  EXPECT_EQ(shape.layers(), 40U);
  EXPECT_EQ(shape.linear_layers(), 30U);
  EXPECT_EQ(shape.attention_layers(), 10U);
  EXPECT_EQ(shape.conv_channels(), 8192U);
  EXPECT_EQ(shape.key_dim(), 2048U);
  EXPECT_EQ(shape.value_dim(), 4096U);
  EXPECT_EQ(shape.query_dim(), 4096U);
  EXPECT_EQ(shape.kv_dim(), 512U);
  EXPECT_EQ(shape.heads_per_kv(), 8U);
  EXPECT_EQ(shape.value_heads_per_key(), 2U);
  EXPECT_EQ(shape.kv_bytes_per_token(2), 20'480U);
  EXPECT_EQ(shape.recurrent_state_bytes(), 62'914'560U);
  EXPECT_EQ(shape.conv_window_bytes(2), 1'474'560U);
}

}  // namespace
}  // namespace lily
