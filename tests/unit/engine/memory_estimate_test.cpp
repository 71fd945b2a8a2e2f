#include "engine/memory_estimate.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/support/fake_backend.h"

namespace lily {
namespace {

TEST(MemoryEstimate, CountsTheStateBuffersOfThePlansExactly) {
  const ModelShape shape = test::tiny_shape(128);
  const WeightTable weights = test::tiny_weights(shape);
  for (const ActivationType activation : {ActivationType::kBf16, ActivationType::kF32}) {
    const StateSizes sizes = state_sizes(3, 1000, 8);
    const PlanOptions options = {.max_rows = 64, .max_context = 1024, .activation = activation};
    const MemoryEstimate estimate = estimate_memory(shape, sizes, activation, 5000, 64);
    uint64_t declared = 0;
    uint64_t temporary = 0;
    const Plan forward = prefill_plan(shape, sizes, options, weights);
    for (const PlanBuffer& buffer : forward.buffers) {
      (buffer.kind == BufferKind::kState ? declared : temporary) += buffer.bytes;
    }
    for (const PlanBuffer& buffer : sample_plan(shape, sizes, options, weights).buffers) {
      declared += buffer.name == "token_counts" || buffer.name == "samples" ? buffer.bytes : 0;
    }
    EXPECT_EQ(estimate.kv_bytes + estimate.state_bytes + estimate.logits_bytes, declared);
    EXPECT_EQ(estimate.weights_bytes, 5000U);
    EXPECT_GE(estimate.workspace_bytes * shape.layers(), temporary) << "a layer's temporaries are not covered";
  }
}

TEST(MemoryEstimate, GivesTheFiguresOfTheLargeModel) {
  ModelShape shape = test::tiny_shape(248320, 262144);
  shape.hidden = 2048;
  shape.layer_kinds.clear();
  for (uint32_t layer = 0; layer < 40; ++layer) {
    shape.layer_kinds.push_back(layer % 4 == 3 ? LayerKind::kAttention : LayerKind::kLinear);
  }
  shape.kv_heads = 2;
  shape.key_heads = 16;
  shape.value_heads = 32;
  const MemoryEstimate estimate = estimate_memory(shape, state_sizes(1, 262144, 1), ActivationType::kBf16, 0, 64);
  EXPECT_EQ(estimate.kv_bytes, 5'368'709'120U);
  EXPECT_EQ(estimate.state_bytes, 64'389'120U);
}

TEST(MemoryEstimate, RefusesWhatDoesNotFitWithEveryNumber) {
  const MemoryEstimate estimate = {.weights_bytes = 20'000'000'000,
                                   .kv_bytes = 5'400'000'000,
                                   .state_bytes = 64'000'000,
                                   .logits_bytes = 2'000'000,
                                   .workspace_bytes = 30'000'000};
  EXPECT_NO_THROW(check_memory(estimate, 4096, estimate.total_bytes()));
  try {
    check_memory(estimate, 262144, 16'000'000'000);
    FAIL() << "25 GB fitted into 16 GB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMemory);
    const std::string message = error.what();
    for (const char* part : {"262144", "25.5 GB", "20.0 GB", "5.4 GB", "64.0 MB", "16.0 GB"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
}

TEST(MemoryEstimate, KnowsThisMachine) {
  EXPECT_GT(usable_memory_bytes(), 64'000'000U);
}

TEST(MemoryEstimate, RoundsAPartialBlockUp) {
  EXPECT_EQ(state_sizes(2, 65, 1).kv_blocks, 4U);
  EXPECT_EQ(state_sizes(2, 64, 1).max_logit_rows, 2U);
}

TEST(FormatBytes, ChoosesAUnitForPeople) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(17'000), "17.0 kB");
  EXPECT_EQ(format_bytes(512'000'000), "512 MB");
  EXPECT_EQ(format_bytes(20'345'000'000), "20.3 GB");
}

}  // namespace
}  // namespace lily
