// The packing rule of the loader and the quantisation rule of the test writer, against figures recorded from MLX.
#include "tests/support/quantise.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "model/weights.h"

namespace lily {
namespace {

/// A view of one row in storage that begins at an odd address.
class OddRow {
 public:
  OddRow(const std::vector<uint32_t>& words, const std::vector<Bf16>& scales, const std::vector<Bf16>& biases,
         uint32_t bits)
      : bytes_(words.size() * 4 + scales.size() * 4 + 1) {
    view_ = {.bits = bits, .rows = 1, .cols = static_cast<uint32_t>(words.size() * 32 / bits)};
    std::byte* at = bytes_.data() + (reinterpret_cast<uintptr_t>(bytes_.data()) % 2 == 0 ? 1 : 0);
    std::memcpy(at, words.data(), words.size() * 4);
    view_.codes = at;
    at += words.size() * 4;
    std::memcpy(at, scales.data(), scales.size() * 2);
    view_.scales = at;
    at += scales.size() * 2;
    std::memcpy(at, biases.data(), biases.size() * 2);
    view_.biases = at;
  }
  const QuantView& view() const { return view_; }

 private:
  std::vector<std::byte> bytes_;
  QuantView view_;
};

std::vector<float> decoded(const QuantView& view) {
  std::vector<float> values;
  for (uint32_t col = 0; col < view.cols; ++col) {
    values.push_back(view.at(0, col));
  }
  return values;
}

std::vector<uint32_t> ramp_words() {
  return {571543808, 1144206114, 1716868420, 2289530726, 2862193032, 3434855338, 4007517644, 4294967278};
}

std::vector<float> ramp_decoded() {
  std::vector<float> values(2, -16.0F);
  for (int level = -14; level <= 12; level += 2) {
    values.insert(values.end(), 4, static_cast<float>(level));
  }
  values.insert(values.end(), 6, 14.0F);
  return values;
}

TEST(Packing, TheRampFixtureDecodes) {
  const OddRow row(ramp_words(), {to_bf16(2.0F)}, {to_bf16(-16.0F)}, 4);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(row.view().codes) % 2, 1U);
  EXPECT_EQ(decoded(row.view()), ramp_decoded());
}

TEST(Packing, TheGaussFixtureDecodes) {
  std::vector<uint32_t> words(8, 0);
  words[0] = 3163982472;
  words[1] = 1416660550;
  const OddRow row(words, {to_bf16(0.291015625F)}, {to_bf16(-2.328125F)}, 4);
  const std::vector<float> expected = {0,
                                       0,
                                       0.58203125F,
                                       0,
                                       -0.58203125F,
                                       0.291015625F,
                                       1.1640625F,
                                       0.873046875F,
                                       -0.58203125F,
                                       -1.1640625F,
                                       -0.58203125F,
                                       0,
                                       -2.328125F,
                                       -0.291015625F,
                                       -1.1640625F,
                                       -0.873046875F};
  const std::vector<float> values = decoded(row.view());
  EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + 16), expected);
}

TEST(Packing, EightBitCodesAreBytesInOrderAndScalesMayBeNegative) {
  std::vector<uint32_t> words(16, 0);
  words[0] = 0xff020100U;
  words[15] = 0x80000000U;
  const OddRow row(words, {to_bf16(-0.5F)}, {to_bf16(3.0F)}, 8);
  EXPECT_EQ(row.view().at(0, 0), 3.0F);
  EXPECT_EQ(row.view().at(0, 1), 2.5F);
  EXPECT_EQ(row.view().at(0, 2), 2.0F);
  EXPECT_EQ(row.view().at(0, 3), 3.0F - 127.5F);
  EXPECT_EQ(row.view().at(0, 62), 3.0F);
  EXPECT_EQ(row.view().at(0, 63), 3.0F - 64.0F);
}

TEST(Quantise, TheRampGivesTheRecordedWords) {
  std::vector<float> ramp;
  for (int i = 0; i < 64; ++i) {
    ramp.push_back(-16.0F + static_cast<float>(i) / 2);
  }
  test::QuantisedRow row;
  test::quantise_row(ramp, 4, row);
  EXPECT_EQ(row.words, ramp_words());
  EXPECT_EQ(to_float(row.scales[0]), 2.0F);
  EXPECT_EQ(to_float(row.biases[0]), -16.0F);
}

TEST(Quantise, AConstantIsItsBias) {
  test::QuantisedRow row;
  test::quantise_row(std::vector<float>(64, 3.25F), 4, row);
  EXPECT_EQ(row.words, std::vector<uint32_t>(8, 0));
  EXPECT_EQ(to_float(row.scales[0]), -1.0011717677116394e-07F);
  EXPECT_EQ(to_float(row.biases[0]), 3.25F);
  const OddRow stored(row.words, row.scales, row.biases, 4);
  EXPECT_EQ(decoded(stored.view()), std::vector<float>(64, 3.25F));
}

TEST(Quantise, AllNegativeGroupsCountZeroAsTheirMaximum) {
  // -2 and -1.2: the maximum is 0, so the step is 2/15 and the edge -2 is code 0; a maximum of -1.2 would make the
  // other code 15.
  std::vector<float> weights(64, -1.2F);
  weights[5] = -2.0F;
  test::QuantisedRow row;
  test::quantise_row(weights, 4, row);
  EXPECT_EQ(to_float(row.biases[0]), -2.0F);
  EXPECT_EQ(row.scales[0].bits, to_bf16(2.0F / 15).bits);
  EXPECT_EQ((row.words[0] >> 20) & 15U, 0U);
  EXPECT_EQ(row.words[0] & 15U, 6U);
}

}  // namespace
}  // namespace lily
