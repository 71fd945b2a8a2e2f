#include "model/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/safetensors_edit.h"

namespace lily {
namespace {

using test::caught;
using test::contains;

/// A file: the length of `header` (or the one given), the header, then `data_bytes` bytes that count up.
std::string file_of(const std::string& header, size_t data_bytes, std::optional<uint64_t> length = std::nullopt) {
  const uint64_t stated = length.value_or(header.size());
  std::string text(8, '\0');
  std::memcpy(text.data(), &stated, 8);
  text += header;
  for (size_t i = 0; i < data_bytes; ++i) {
    text += static_cast<char>(i);
  }
  return text;
}

SafetensorsHeader parse(const std::string& text) {
  return parse_safetensors(std::as_bytes(std::span(text)), "x.safetensors");
}

std::string refusal(const std::string& text) {
  const test::CaughtError error = caught([&] { parse(text); });
  EXPECT_EQ(error.code, ErrorCode::kCheckpoint);
  EXPECT_TRUE(contains(error.text, "x.safetensors")) << "the message must name the file";
  return error.text;
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const std::string text = file_of(
      R"({"__metadata__": {"format": "mlx"}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},)"
      R"( "a": {"data_offsets": [0, 4], "shape": [2, 1], "dtype": "BF16"}, "none": {"dtype": "U8", "shape": [0, 3], "data_offsets": [4, 4]},)"
      R"( "scalar": {"dtype": "U64", "shape": [], "data_offsets": [8, 16]}}   )",
      16);
  const SafetensorsHeader header = parse(text);
  ASSERT_EQ(header.tensors.size(), 4U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, StoredDtype::kBf16);
  EXPECT_EQ(header.tensors[0].shape, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(header.tensors[1].name, "none");
  EXPECT_TRUE(header.tensors[1].data.empty());
  EXPECT_EQ(header.tensors[2].name, "b");
  ASSERT_EQ(header.tensors[2].data.size(), 4U);
  EXPECT_EQ(static_cast<int>(header.tensors[2].data[0]), 4);
  EXPECT_EQ(header.tensors[3].data.size(), 8U);
  EXPECT_EQ(header.header_bytes + 16, text.size());
}

TEST(Safetensors, AnEmptyHeaderIsAFileWithoutTensors) {
  EXPECT_TRUE(parse(file_of("{}", 0)).tensors.empty());
}

TEST(SafetensorsRefusal, HeaderLengths) {
  EXPECT_TRUE(contains(refusal(""), "has 0 bytes, expected at least the 8"));
  EXPECT_TRUE(contains(refusal("1234567"), "has 7 bytes"));
  EXPECT_TRUE(contains(refusal(file_of("{}", 0, 0)), "the header length is 0"));
  EXPECT_TRUE(contains(refusal(file_of("{}", 0, uint64_t{1} << 63)), "the header length is 9223372036854775808"));
  EXPECT_TRUE(contains(refusal(file_of("{}", 0, UINT64_MAX)), "the header length is 18446744073709551615"));
  EXPECT_TRUE(contains(refusal(file_of("{}", 0, 3)), "has 10 bytes, but its header alone needs 11"));
  EXPECT_TRUE(contains(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "Git LFS pointer"));
}

TEST(SafetensorsRefusal, Json) {
  EXPECT_TRUE(contains(refusal(file_of("hello", 0)), "not valid JSON"));
  EXPECT_TRUE(contains(refusal(file_of("{} {}", 0)), "not valid JSON"));
  EXPECT_TRUE(contains(refusal(file_of(R"({"a": )", 0)), "not valid JSON"));
  EXPECT_TRUE(contains(refusal(file_of("[]", 0)), "a list at its top"));
  EXPECT_TRUE(contains(refusal(file_of("17", 0)), "17 at its top"));
  EXPECT_TRUE(contains(refusal(file_of(R"({"a": 5})", 0)), "5 at a"));
  EXPECT_TRUE(contains(refusal(file_of(R"({"a": null})", 0)), "null at a"));
  EXPECT_TRUE(contains(refusal(file_of(R"({"a": {"shape": {"b": 1}}})", 0)), "an object at shape"));
  EXPECT_TRUE(contains(refusal(file_of(R"({"a": {"dtype": [1]}})", 0)), "a list at dtype"));
  EXPECT_TRUE(contains(refusal(file_of(R"({"__metadata__": {"format": 1}})", 0)), "1 at format"));
  EXPECT_TRUE(contains(refusal(file_of(R"({"a": {"shape": [)" + std::string(100'000, '['), 0)), "a list at shape"));
  EXPECT_TRUE(contains(refusal(file_of("{\"\xff\": {}}", 0)), "not valid JSON"));
  EXPECT_TRUE(contains(refusal(file_of(R"({"a": {"dtype": "U8", "colour": "red"}})", 0)), "key colour is not known"));
}

/// One tensor "t" with the given fields over `data_bytes` bytes.
std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets,
                       size_t data_bytes) {
  return file_of(fmt::format(R"({{"t": {{"dtype": "{}", "shape": {}, "data_offsets": {}}}}})", dtype, shape, offsets),
                 data_bytes);
}

TEST(SafetensorsRefusal, Entries) {
  EXPECT_TRUE(contains(refusal(one_tensor("BF17", "[2]", "[0, 4]", 4)), "t: dtype BF17 is not known"));
  EXPECT_TRUE(contains(refusal(one_tensor("U32", "[2]", "[0, 4]", 4)),
                       "data_offsets are [0, 4], expected 8 bytes for U32 [2]"));
  EXPECT_TRUE(contains(refusal(one_tensor("U8", "[4]", "[4, 0]", 4)), "data_offsets are [4, 0]"));
  EXPECT_TRUE(contains(refusal(one_tensor("U8", "[4]", "[-4, 0]", 4)), "-4 at data_offsets"));
  EXPECT_TRUE(contains(refusal(one_tensor("U8", "[-4]", "[0, 4]", 4)), "-4 at shape"));
  EXPECT_TRUE(contains(refusal(one_tensor("U8", "[4.0]", "[0, 4]", 4)), "4.0 at shape"));
  EXPECT_TRUE(contains(refusal(one_tensor("U8", "[4]", "[0, 4, 8]", 4)), "data_offsets has 3 numbers, expected 2"));
  EXPECT_TRUE(contains(refusal(one_tensor("U8", "[4]", "[4]", 4)), "data_offsets has 1 numbers"));
  EXPECT_TRUE(contains(refusal(one_tensor("U8", "[1,1,1,1,1,1,1,1,4]", "[0, 4]", 4)), "more than 8 numbers"));
  EXPECT_TRUE(contains(refusal(one_tensor("U8", R"(["4"])", "[0, 4]", 4)), "the string 4 at shape"));
  EXPECT_TRUE(contains(refusal(file_of(R"({"t": {"dtype": "U8", "shape": [4]}})", 4)), "t: data_offsets is missing"));
  EXPECT_TRUE(contains(refusal(file_of(R"({"t": {}})", 4)), "t: dtype is missing"));
  EXPECT_TRUE(
      contains(refusal(file_of(R"({"t": {"dtype": "U8", "shape": [4], "shape": [4], "data_offsets": [0, 4]}})", 4)),
               "t: shape appears twice"));
}

TEST(SafetensorsRefusal, OverflowingShapesAndOffsets) {
  EXPECT_TRUE(contains(refusal(one_tensor("U32", "[4294967296, 4294967296]", "[0, 0]", 0)), "overflows 64 bits"));
  EXPECT_TRUE(contains(refusal(one_tensor("U32", "[4611686018427387904]", "[0, 0]", 0)), "overflows 64 bits"));
  EXPECT_TRUE(contains(refusal(one_tensor("U8", "[18446744073709551615]", "[0, 18446744073709551615]", 4)),
                       "describes 18446744073709551615 bytes: the file is cut short"));
  EXPECT_TRUE(
      contains(refusal(one_tensor("U8", "[1]", "[18446744073709551614, 18446744073709551615]", 4)), "cut short"));
  EXPECT_TRUE(contains(refusal(one_tensor("U8", "[18446744073709551616]", "[0, 4]", 4)), "at shape"));
}

TEST(SafetensorsRefusal, RangesThatDoNotTileTheFile) {
  const auto two = [](const std::string& a, const std::string& b, size_t data_bytes) {
    return refusal(file_of(fmt::format(R"({{"a": {{"dtype": "U8", "shape": [4], "data_offsets": {}}},)"
                                       R"( "b": {{"dtype": "U8", "shape": [4], "data_offsets": {}}}}})",
                                       a, b),
                           data_bytes));
  };
  EXPECT_TRUE(contains(two("[0, 4]", "[2, 6]", 6), "b: data begins at 2, expected 4: tensors overlap"));
  EXPECT_TRUE(contains(two("[0, 4]", "[0, 4]", 4), "tensors overlap"));
  EXPECT_TRUE(contains(two("[0, 4]", "[6, 10]", 10), "b: data begins at 6, expected 4: there is a gap"));
  EXPECT_TRUE(contains(two("[1, 5]", "[5, 9]", 9), "a: data begins at 1, expected 0: there is a gap"));
  EXPECT_TRUE(contains(two("[0, 4]", "[4, 8]", 9), "1 bytes follow the last tensor"));
  EXPECT_TRUE(contains(two("[0, 4]", "[4, 8]", 7), "the file is cut short"));
}

TEST(SafetensorsRefusal, OneNameTwice) {
  EXPECT_TRUE(contains(refusal(file_of(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},)"
                                       R"( "a": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}})",
                                       8)),
                       "the tensor a appears twice"));
}

TEST(SafetensorsRefusal, NamesWithControlCharactersStayOnOneLine) {
  EXPECT_TRUE(
      contains(refusal(file_of(R"({"a\nb": {"dtype": "U8", "shape": [4], "data_offsets": [0, 1]}})", 8)), "a?b"));
}

}  // namespace
}  // namespace lily
