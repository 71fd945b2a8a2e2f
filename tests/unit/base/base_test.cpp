#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/bf16.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/result.h"

namespace lily {
namespace {

std::filesystem::path write_temp(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1.0F + 0x1p-8F).bits, 0x3f80);            // tie, even below
  EXPECT_EQ(to_bf16(1.0F + 0x1p-7F + 0x1p-8F).bits, 0x3f82);  // tie, even above
  EXPECT_EQ(to_bf16(1.0F + 0x1p-8F + 0x1p-20F).bits, 0x3f81);
  EXPECT_EQ(to_float(to_bf16(-2.5F)), -2.5F);
}

TEST(Bf16, KeepsInfinityAndNan) {
  EXPECT_TRUE(std::isinf(to_float(to_bf16(std::numeric_limits<float>::infinity()))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(to_float(to_bf16(std::numeric_limits<float>::max()))));
}

TEST(MappedFile, ShowsTheBytes) {
  const auto path = write_temp("lily_map_test", "hello");
  const MappedFile file(path);
  ASSERT_EQ(file.bytes().size(), 5U);
  EXPECT_EQ(static_cast<char>(file.bytes()[1]), 'e');
  file.release(0, 5);
  EXPECT_EQ(static_cast<char>(file.bytes()[4]), 'o');
}

TEST(MappedFile, EmptyFileHasNoBytes) {
  const auto path = write_temp("lily_map_empty", "");
  EXPECT_TRUE(MappedFile(path).bytes().empty());
}

TEST(MappedFile, NamesAMissingFileAndAFolder) {
  try {
    const MappedFile file("/nonexistent/lily");
    FAIL() << "a missing file was mapped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/lily"), std::string::npos);
  }
  EXPECT_THROW(MappedFile{testing::TempDir()}, Error);
}

TEST(ReadFile, RefusesMoreThanTheLimit) {
  const auto path = write_temp("lily_read_test", "0123456789");
  EXPECT_EQ(read_file(path, 10), "0123456789");
  EXPECT_THROW(read_file(path, 9), Error);
}

TEST(Result, CarriesAValueOrAFailure) {
  const Result<int> good = 3;
  const Result<int> bad = invalid("temperature must be at least 0, found {}", -1);
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.value(), 3);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.failure().message, "temperature must be at least 0, found -1");
}

TEST(Check, AbortsWithTheMessage) {
  EXPECT_DEATH(LILY_CHECK(1 > 2, "one {} two", "over"), "check failed: 1 > 2: one over two");
}

}  // namespace
}  // namespace lily
