// The reference of linear ops, attention and experts on numbers worked out by hand.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "tests/ref/attention.h"
#include "tests/ref/experts.h"
#include "tests/ref/linear.h"

namespace lily::ref {
namespace {

/// Two rows of 64 codes: 0, 1, 2, … and all ones; scales 0.5 and -2, biases -1 and 3.
struct TinyMatrix {
  std::array<std::byte, 64> codes{};
  std::array<std::byte, 4> scales{};
  std::array<std::byte, 4> biases{};
  QuantTensor tensor;

  TinyMatrix() {
    for (size_t i = 0; i < 32; ++i) {
      codes[i] = static_cast<std::byte>((2 * i) % 16 | (2 * i + 1) % 16 << 4);
      codes[32 + i] = std::byte{0x11};
    }
    put(scales, {0.5F, -2.0F});
    put(biases, {-1.0F, 3.0F});
    tensor = {.name = "tiny",
              .bits = 4,
              .rows = 2,
              .cols = 64,
              .codes = codes.data(),
              .scales = scales.data(),
              .biases = biases.data()};
  }
  static void put(std::array<std::byte, 4>& to, std::array<float, 2> values) {
    for (size_t i = 0; i < 2; ++i) {
      const uint16_t bits = to_bf16(values[i]).bits;
      std::memcpy(&to[2 * i], &bits, 2);
    }
  }
};

TEST(Rounding, GoesToTheNearestBf16TiesToEven) {
  EXPECT_EQ(round_bf16(1.0 + 0x1p-8), 1.0);
  EXPECT_EQ(round_bf16(1.0 + 0x1p-7 + 0x1p-8), 1.0 + 0x1p-6);
  EXPECT_EQ(round_bf16(1.0 + 0x1p-8 + 0x1p-40), 1.0 + 0x1p-7);
  EXPECT_EQ(round_bf16(-0.0), 0.0);
  EXPECT_EQ(round_bf16(0x1.8p-133), 0x1p-132);
  EXPECT_EQ(round_bf16(0x1p-134), 0.0);
  EXPECT_EQ(half_ulp_bf16(1.5), 0x1p-8);
  EXPECT_EQ(half_ulp_bf16(0x1p-130), 0x1p-134);
  EXPECT_EQ(half_ulp_bf16(-2.0), 0x1p-7);
}

TEST(Matrix, IsCodeTimesScalePlusBias) {
  const TinyMatrix tiny;
  const Matrix matrix(tiny.tensor);
  Values row(64);
  matrix.read_row(0, row);
  EXPECT_EQ(row[0], -1.0);
  EXPECT_EQ(row[5], 1.5);
  EXPECT_EQ(row[17], -0.5);
  matrix.read_row(1, row);
  EXPECT_EQ(row[63], 1.0);
  const Matrix stacked({&tiny.tensor, &tiny.tensor});
  EXPECT_EQ(stacked.rows(), 4U);
  stacked.read_row(2, row);
  EXPECT_EQ(row[5], 1.5);
}

TEST(Linear, SumsOverTheColumns) {
  const TinyMatrix tiny;
  Values x(128, 0.0);
  x[5] = 2.0;
  x[64] = 1.0;
  x[65] = 1.0;
  const Values out = linear(Matrix(tiny.tensor), x);
  EXPECT_EQ(out, (Values{3.0, 2.0, -1.5, 2.0}));
}

TEST(RmsNorm, DividesByTheRootMeanSquareAndScales) {
  const Values out = rms_norm({3.0, -4.0}, {1.0, 2.0}, 0.0);
  EXPECT_DOUBLE_EQ(out[0], 3.0 / std::sqrt(12.5));
  EXPECT_DOUBLE_EQ(out[1], -8.0 / std::sqrt(12.5));
}

TEST(Attention, TurnsPairsOfTheRotaryPartOnly) {
  AttentionParams params;
  params.query_heads = 1;
  params.kv_heads = 1;
  params.eps = 0.0;
  params.q_norm.assign(256, 1.0);
  params.k_norm.assign(256, 1.0);
  Values proj(params.proj_width(), 0.0);
  proj[0] = 16.0;             // query; the norm of a lone element is sqrt(256)
  proj[512 + 100] = -3.0;     // key, beyond the rotary part
  proj[512 + 256 + 1] = 7.0;  // value
  KvLists lists;
  lists.keys.resize(size_t{2} * 256);
  lists.values.resize(size_t{2} * 256);
  const Values query = qk_norm_rope_append(params, proj, 2, lists);
  EXPECT_NEAR(query[0], 16.0 * std::cos(2.0), 1e-12);
  EXPECT_NEAR(query[32], 16.0 * std::sin(2.0), 1e-12);
  EXPECT_EQ(lists.keys[2 * 256 + 100], -16.0);
  EXPECT_EQ(lists.values[2 * 256 + 1], 7.0);
  EXPECT_EQ(lists.values.size(), 3U * 256);
}

TEST(Attention, GateAndCausalMaskAct) {
  AttentionParams params;
  params.query_heads = 2;
  params.kv_heads = 1;
  params.eps = 1e-6;
  params.q_norm.assign(256, 0.0);  // all scores 0: the mean of what is seen
  params.k_norm.assign(256, 0.0);
  const size_t width = params.proj_width();
  Values proj(2 * width, 0.0);
  proj[width - 256] = 2.0;
  proj[2 * width - 256] = 4.0;
  proj[width + 256] = std::log(3.0);  // gate of head 0, row 1: sigmoid 0.75
  KvLists lists;
  const Values query = qk_norm_rope_append(params, proj, 0, lists);
  const Values out = attention(params, query, proj, 0, lists);
  EXPECT_DOUBLE_EQ(out[0], 1.0);
  EXPECT_DOUBLE_EQ(out[512], 0.75 * 3.0);
  EXPECT_DOUBLE_EQ(out[512 + 256], 0.5 * 3.0);
}

TEST(RouterTopK, BreaksTiesDownwardsAndNormalises) {
  const Routing routing = router_top_k({1.0, 2.0, 2.0, 0.0, 0.0}, 4, 2);
  EXPECT_EQ(routing.experts, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(routing.scores, (Values{0.5, 0.5, 0.5}));
}

TEST(ExpertGroup, ListsPairsByExpert) {
  EXPECT_EQ(expert_group({2, 0, 0, 2}, 3), (std::vector<uint32_t>{0, 2, 2, 4, 1, 2, 0, 3}));
}

TEST(GateUp, IsSiluOfGateTimesUp) {
  const TinyMatrix tiny;
  Values x(64, 0.0);
  x[5] = 2.0;
  EXPECT_EQ(gate_up(Matrix(tiny.tensor), x), Values{silu(3.0) * 2.0});
}

}  // namespace
}  // namespace lily::ref
