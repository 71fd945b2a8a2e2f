// Damaged config.json files: load_config refuses with an Error, or returns a shape within every promised bound.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "model/config.h"
#include "tests/support/mutate.h"
#include "tests/support/safetensors_edit.h"

namespace lily {
namespace {

namespace fs = std::filesystem;

void expect_sound(const ModelConfig& config) {
  const ModelShape& shape = config.shape;
  EXPECT_EQ(shape.hidden % kQuantGroup, 0U);
  EXPECT_GT(shape.hidden, 0U);
  EXPECT_EQ(shape.query_heads % shape.kv_heads, 0U);
  EXPECT_EQ(shape.value_heads % shape.key_heads, 0U);
  EXPECT_GE(shape.layers(), 1U);
  EXPECT_GE(shape.experts_per_token, 1U);
  EXPECT_LE(shape.experts_per_token, shape.experts);
  for (const uint32_t id : config.eos_ids) {
    EXPECT_LT(id, shape.vocab);
  }
}

TEST(ConfigFuzz, DamagedConfigsAreRefusedOrSound) {
  set_log_level(LogLevel::kError);
  auto json =
      nlohmann::ordered_json::parse(test::read_text(std::string(LILY_SOURCE_DIR) + "/tests/golden/mini/config.json"));
  json.erase("quantization_config");  // a repetition of `quantization`, which would take half of the damage
  const std::string good = json.dump();
  const fs::path folder = test::fresh_folder("config_fuzz");
  int taken = 0;
  int refused = 0;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    test::write_text(folder / "config.json", test::mutated(good, seed));
    SCOPED_TRACE(seed);
    try {
      expect_sound(load_config(folder));
      ++taken;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      ++refused;
    }
  }
  EXPECT_GT(taken, 30);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace lily
