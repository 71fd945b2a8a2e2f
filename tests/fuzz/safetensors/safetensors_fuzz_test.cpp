// Damaged headers: parse_safetensors either refuses with an Error or returns tensors that tile the file.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "model/safetensors.h"
#include "tests/support/mutate.h"
#include "tests/support/safetensors_edit.h"

namespace lily {
namespace {

/// True when the file was taken. The bytes lie in a block of exactly their size, so that a sanitizer sees a step
/// beyond.
bool survives(const std::string& text) {
  const auto block = std::make_unique<std::byte[]>(text.size());
  std::memcpy(block.get(), text.data(), text.size());
  const std::span<const std::byte> bytes(block.get(), text.size());
  try {
    const SafetensorsHeader header = parse_safetensors(bytes, "fuzz.safetensors");
    size_t at = header.header_bytes;
    for (const StoredTensor& tensor : header.tensors) {
      EXPECT_EQ(tensor.data.data(), block.get() + at);
      at += tensor.data.size();
    }
    EXPECT_EQ(at, text.size());
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCheckpoint);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return false;
  }
}

std::string small_json() {
  return R"({"__metadata__":{"format":"mlx"},"a.weight":{"dtype":"U32","shape":[2,4],"data_offsets":[0,32]},)"
         R"("a.scales":{"dtype":"BF16","shape":[2,1],"data_offsets":[32,36]},)"
         R"("norm":{"dtype":"F32","shape":[3],"data_offsets":[36,48]}}   )";
}

TEST(SafetensorsFuzz, DamagedJsonWithATrueLength) {
  int taken = 0;
  for (uint64_t seed = 0; seed < 30'000; ++seed) {
    const std::string json = test::mutated(small_json(), seed);
    uint64_t length = json.size();
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    SCOPED_TRACE(seed);
    taken += survives(text + json + std::string(48, 'd')) ? 1 : 0;
  }
  // Renamed tensors and metadata are harmless damage; if nothing passed, the fuzzer would only be testing the first
  // check.
  EXPECT_GT(taken, 300);
  EXPECT_LT(taken, 15'000);
}

TEST(SafetensorsFuzz, DamageAnywhereInASmallFile) {
  const std::string json = small_json();
  const uint64_t length = json.size();
  std::string whole(8, '\0');
  std::memcpy(whole.data(), &length, 8);
  whole += json + std::string(48, 'd');
  ASSERT_TRUE(survives(whole));
  int refused = 0;
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    SCOPED_TRACE(seed);
    refused += survives(test::mutated(whole, seed)) ? 0 : 1;
  }
  EXPECT_GT(refused, 1'000);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(survives(whole.substr(0, size))) << size;
  }
}

TEST(SafetensorsFuzz, TheGoldenHeaderWithDamage) {
  const std::string file = test::read_text(std::string(LILY_SOURCE_DIR) + "/tests/golden/mini/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  const std::string json = file.substr(8, length);
  // The data do not matter here, only how many there are; a tenth keeps the test quick and makes every copy "cut
  // short".
  const std::string data(file.size() / 10, 'd');
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string damaged = test::mutated(json, seed);
    length = damaged.size();
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    SCOPED_TRACE(seed);
    EXPECT_FALSE(survives(text + damaged + data));
  }
}

}  // namespace
}  // namespace lily
