// The reference of gated_delta_net against itself: the chunked form equals the recurrence, and runs may be cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/ref/gated_delta_net.h"

namespace lily::ref {
namespace {

constexpr size_t kDim = kDeltaHeadDim;

Values normal(std::mt19937& random, size_t count, double scale) {
  std::normal_distribution<double> draw(0.0, scale);
  Values values(count);
  for (double& value : values) value = draw(random);
  return values;
}

DeltaHead random_head(std::mt19937& random, size_t rows, double decay) {
  DeltaHead head;
  head.query = normal(random, rows * kDim, 1.0 / static_cast<double>(kDim));
  head.key = normal(random, rows * kDim, 1.0 / std::sqrt(static_cast<double>(kDim)));
  head.value = normal(random, rows * kDim, 1.0);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  for (size_t r = 0; r < rows; ++r) {
    head.decay.push_back(-decay * unit(random));
    head.beta.push_back(unit(random));
  }
  return head;
}

DeltaParams random_params(std::mt19937& random) {
  DeltaParams params;
  params.key_heads = 1;
  params.value_heads = 2;
  params.conv = normal(random, size_t{params.channels()} * 4, 0.5);
  params.a_log = {0.5, 2.0};
  params.dt_bias = {-3.0, 0.5};
  params.norm = normal(random, kDim, 1.0);
  return params;
}

double largest_difference(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST(DeltaRule, ChunkedFormEqualsTheRecurrence) {
  std::mt19937 random(1);
  for (const double decay : {0.01, 1.0, 40.0}) {
    const DeltaHead head = random_head(random, 150, decay);
    Values state = normal(random, kDim * kDim, 1.0);
    const Values start = state;
    const Values expected = delta_recurrence(head, state);
    for (const size_t chunk : {size_t{1}, size_t{16}, size_t{64}, size_t{150}}) {
      Values chunk_state = start;
      const Values out = delta_chunked(head, chunk, chunk_state);
      EXPECT_LT(largest_difference(out, expected), 1e-9) << "chunk " << chunk << " decay " << decay;
      EXPECT_LT(largest_difference(chunk_state, state), 1e-9) << "chunk " << chunk << " decay " << decay;
    }
  }
}

TEST(DeltaRule, OneRowIsTheFormulaByHand) {
  DeltaHead head;
  head.query.assign(kDim, 0.0);
  head.key.assign(kDim, 0.0);
  head.value.assign(kDim, 0.0);
  head.query[1] = 2.0;
  head.key[1] = 1.0;
  head.value[3] = 5.0;
  head.decay = {std::log(0.5)};
  head.beta = {0.25};
  Values state(kDim * kDim);
  state[1 * kDim + 3] = 4.0;
  state[2 * kDim + 3] = 8.0;
  const Values out = delta_recurrence(head, state);
  // decayed 2, delta 0.25 · (5 - 2) = 0.75, written 2.75, read twice
  EXPECT_DOUBLE_EQ(state[1 * kDim + 3], 2.75);
  EXPECT_DOUBLE_EQ(state[2 * kDim + 3], 4.0);
  EXPECT_DOUBLE_EQ(out[3], 5.5);
  EXPECT_DOUBLE_EQ(out[4], 0.0);
}

TEST(GatedDeltaNet, AnyCutOfARunGivesTheSameRowsAndState) {
  std::mt19937 random(2);
  const DeltaParams params = random_params(random);
  const size_t width = params.proj_width();
  constexpr size_t kRows = 9;
  const Values proj = normal(random, kRows * width, 1.0);
  DeltaState whole(params);
  const Values expected = gated_delta_net(params, proj, whole);
  for (const size_t cut : {size_t{1}, size_t{2}, size_t{4}, size_t{8}}) {
    DeltaState state(params);
    const auto middle = proj.begin() + static_cast<std::ptrdiff_t>(cut * width);
    Values out = gated_delta_net(params, Values(proj.begin(), middle), state);
    const Values rest = gated_delta_net(params, Values(middle, proj.end()), state);
    out.insert(out.end(), rest.begin(), rest.end());
    EXPECT_EQ(out, expected) << "cut after " << cut;
    EXPECT_EQ(state.state, whole.state);
    EXPECT_EQ(state.window, whole.window);
  }
}

TEST(GatedDeltaNet, WindowHoldsTheLastThreePreConvRows) {
  std::mt19937 random(3);
  const DeltaParams params = random_params(random);
  const Values proj = normal(random, size_t{2} * params.proj_width(), 1.0);
  DeltaState state(params);
  (void)gated_delta_net(params, proj, state);
  const size_t channels = params.channels();
  EXPECT_EQ(state.window[0], 0.0);
  EXPECT_EQ(state.window[channels], proj[0]);
  EXPECT_EQ(state.window[2 * channels + 7], proj[params.proj_width() + 7]);
}

TEST(GatedDeltaNet, ConvWeighsTheCurrentRowWithTheLastTap) {
  std::mt19937 random(4);
  DeltaParams params = random_params(random);
  params.value_heads = 1;
  params.conv.assign(size_t{params.channels()} * 4, 0.0);
  params.norm.assign(kDim, 1.0);
  const size_t channels = params.channels();
  // Only tap 3 lets anything through, so without a history the output depends on the row itself: v = silu(u), and with
  // one k, q direction o ∝ v.
  for (size_t c = 0; c < channels; ++c) params.conv[c * 4 + 3] = 1.0;
  Values proj(params.proj_width(), 0.0);
  proj[0] = 1.0;                                               // q
  proj[kDim] = 1.0;                                            // k
  proj[2 * kDim + 5] = 2.0;                                    // v
  for (size_t d = 0; d < kDim; ++d) proj[channels + d] = 1.0;  // z
  DeltaState state(params);
  const Values out = gated_delta_net(params, proj, state);
  EXPECT_GT(out[5], 1.0);
  EXPECT_EQ(out[6], 0.0);
}

}  // namespace
}  // namespace lily::ref
