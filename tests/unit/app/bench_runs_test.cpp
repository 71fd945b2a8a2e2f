#include "app/bench_runs.h"

#include <gtest/gtest.h>

#include <array>

namespace lily {
namespace {

TEST(BenchPrompt, IsTheHashOfTheContract) {
  EXPECT_EQ(bench_prompt(6, 248320), (std::vector<uint32_t>{0, 143281, 13666, 156947, 27332, 146037}));
  EXPECT_EQ(bench_prompt(6, 6144), (std::vector<uint32_t>{0, 433, 2914, 3347, 5828, 2165}));
}

TEST(TokenDigest, IsFnv1aOverWholeIds) {
  EXPECT_EQ(token_digest({}), 0xcbf29ce484222325U);
  EXPECT_EQ(token_digest(std::array<uint32_t, 4>{1, 2, 3, 248319}), 0xc0c10377554382bcU);
}

BenchPoint point_of(const std::vector<double>& seconds) {
  BenchPoint point{.prompt_tokens = 8, .decode_steps = 2, .runs = {}};
  for (const double each : seconds) {
    point.runs.push_back({.prefill_seconds = each,
                          .first_token = 5,
                          .decode_seconds = 10 - each,
                          .step_seconds = {(10 - each) / 2, (10 - each) / 2},
                          .decode_ids = {6, 7}});
  }
  return point;
}

TEST(BenchPoint, MediansOfPrefillAndDecodeAreSeparate) {
  const BenchPoint odd = point_of({3, 1, 2});
  EXPECT_EQ(odd.median_prefill().prefill_seconds, 2);
  EXPECT_EQ(odd.median_decode().decode_seconds, 8);
  const BenchPoint even = point_of({4, 1, 3, 2});
  EXPECT_EQ(even.median_prefill().prefill_seconds, 2);
  EXPECT_EQ(even.median_decode().decode_seconds, 7);
  EXPECT_EQ(point_of({1}).median_decode().decode_seconds, 9);
}

TEST(BenchJson, FollowsTheContract) {
  const ordered_json json = point_json(point_of({3, 1, 2}), 2);
  EXPECT_EQ(json["workload"]["prompt_len"], 8);
  EXPECT_EQ(json["workload"]["prompt_kind"], "u32_golden_ratio_hash_mod_vocab");
  EXPECT_EQ(json["workload"]["decode_steps"], 2);
  EXPECT_EQ(json["workload"]["decode_mode"], "production_depth2_concurrent");
  EXPECT_EQ(json["workload"]["gpu_timing_diagnostic"], false);
  EXPECT_EQ(json["results"]["prefill"]["wall_secs"], 2.0);
  EXPECT_EQ(json["results"]["prefill"]["tok_s"], 4.0);
  EXPECT_EQ(json["results"]["prefill"]["first_token_id"], 5);
  EXPECT_EQ(json["results"]["decode"]["wall_secs"], 8.0);
  EXPECT_EQ(json["results"]["decode"]["tok_s"], 0.25);
  EXPECT_EQ(json["results"]["decode"]["step_wall_secs"].size(), 2U);
  EXPECT_EQ(json["results"]["decode"]["token_ids"], ordered_json({6, 7}));
  EXPECT_TRUE(json["results"]["decode"]["gpu_passes"].is_null());
  EXPECT_TRUE(json["results"]["decode"]["lookahead_gpu_pass"].is_null());
  EXPECT_EQ(json["repeats"].size(), 3U);
  EXPECT_EQ(json["repeats"][0]["prefill"]["wall_secs"], 3.0);
  EXPECT_EQ(point_json(point_of({1}), 1)["workload"]["decode_mode"], "production_depth1");
}

}  // namespace
}  // namespace lily
