// The plans of the golden mini model: text dumps with the CPU's levels, byte counts, and validation.
// LILY_UPDATE_GOLDEN=1 rewrites the dumps; the diff then shows what changed.

#include "plan/plan.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "model/weights.h"
#include "plan/step.h"

namespace lily {
namespace {

const std::string kGolden = std::string(LILY_SOURCE_DIR) + "/tests/golden/";

class MiniPlan : public testing::Test {
 protected:
  ModelWeights weights_ = load_weights(kGolden + "mini");
  WeightTable table_ = weight_table(weights_);
  StateSizes sizes_{.sequences = 2, .state_slots = 3, .kv_blocks = 8, .blocks_a_sequence = 4, .max_logit_rows = 2};
};

void expect_golden(const std::string& file, const std::string& text) {
  const std::string path = kGolden + "plan/" + file;
  if (std::getenv("LILY_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
  }
  std::ifstream stream(path);
  std::stringstream golden;
  golden << stream.rdbuf();
  EXPECT_EQ(text, golden.str()) << "LILY_UPDATE_GOLDEN=1 rewrites " << path;
}

std::string levels_on_cpu(const Plan& plan) {
  const auto backend = make_cpu_backend({.threads = 1, .simd_level = SimdLevel::kPortable});
  Bindings bindings;
  for (const WeightView& view : plan.weight_table->views) {
    bindings.weights.push_back(backend->adopt(view));
  }
  for (const PlanBuffer& buffer : plan.buffers) {
    bindings.states.push_back(buffer.kind == BufferKind::kState ? backend->allocate(buffer.bytes, buffer.name)
                                                                : BufferHandle{});
  }
  std::string text = backend->compile(plan, bindings)->describe();
  const size_t arena = text.find(", arena");
  return text.erase(arena, text.find('\n') - arena);
}

TEST_F(MiniPlan, DecodeReadsAsWritten) {
  const Plan plan =
      decode_plan(weights_.shape(), sizes_, {.mode = PlanMode::kDecode, .max_rows = 2, .max_context = 256}, table_);
  expect_golden("decode.txt", dump(plan) + levels_on_cpu(plan));
}

TEST_F(MiniPlan, PrefillReadsAsWritten) {
  const Plan plan =
      prefill_plan(weights_.shape(), sizes_, {.mode = PlanMode::kPrefill, .max_rows = 128, .max_context = 256}, table_);
  expect_golden("prefill.txt", dump(plan) + levels_on_cpu(plan));
}

TEST_F(MiniPlan, SampleReadsAsWritten) {
  const Plan plan = sample_plan(weights_.shape(), sizes_, {}, table_);
  expect_golden("sample.txt", dump(plan) + levels_on_cpu(plan));
}

TEST_F(MiniPlan, CapturingHiddenStatesAddsOneCopyALayerAndOneForTheEnd) {
  const PlanOptions options{.max_rows = 1, .max_context = 64, .capture_hidden = true};
  const Plan plan = decode_plan(weights_.shape(), sizes_, options, table_);
  size_t copies = 0;
  for (const Op& op : plan.ops) {
    copies += std::holds_alternative<CaptureHidden>(op) ? 1U : 0U;
  }
  EXPECT_EQ(copies, weights_.shape().layers() + 1);
}

TEST_F(MiniPlan, AStepReadsEveryWeightOnceAndEachRoutedExpertAtMostOnce) {
  const Plan plan = decode_plan(weights_.shape(), sizes_, {.max_rows = 64, .max_context = 256}, table_);
  uint64_t all = 0;
  uint64_t experts = 0;
  uint64_t embed_row = 0;
  for (size_t i = 0; i < table_.views.size(); ++i) {
    const WeightView& view = table_.views[i];
    if (i == table_.embed.index) {
      embed_row = view.bytes / view.rows;
    } else if (view.experts > 1) {
      experts += view.bytes;
    } else {
      all += view.bytes;
    }
  }
  // 8 experts, 2 a token.
  EXPECT_EQ(weight_bytes_read(plan, 1), all + experts / 4 + embed_row);
  EXPECT_EQ(weight_bytes_read(plan, 3), all + experts * 3 / 4 + 3 * embed_row);
  EXPECT_EQ(weight_bytes_read(plan, 4), all + experts + 4 * embed_row);
  EXPECT_EQ(weight_bytes_read(plan, 64), all + experts + 64 * embed_row);
}

TEST_F(MiniPlan, AnOperandBeyondItsBufferAborts) {
  PlanBuilder builder("broken", weights_.shape(), sizes_, {.max_rows = 1}, table_);
  const Ref buffer = builder.temp("small", 64);
  EXPECT_DEATH(builder.plan().add(CaptureHidden{.residual = buffer, .out = {buffer.buffer, 32, 64}}),
               "reaches byte 96 of small, which has 64");
}

TEST_F(MiniPlan, AnUnknownWeightAborts) {
  PlanBuilder builder("broken", weights_.shape(), sizes_, {.max_rows = 1}, table_);
  const Ref buffer = builder.temp("small", 64);
  EXPECT_DEATH(builder.plan().add(LinearResidual{.weight = {9999}, .x = buffer, .residual = buffer}),
               "not in the table");
}

}  // namespace
}  // namespace lily
