// Parts of the CPU backend that no op test sees alone: the thread team, repacked weights, buffers, memory figures.

#include "backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "backend/cpu/repack.h"
#include "backend/cpu/sample_launch.h"
#include "backend/cpu/thread_pool.h"
#include "base/error.h"
#include "model/weights.h"
#include "plan/weight_table.h"

namespace lily {
namespace {

using cpu::ThreadPool;

TEST(ThreadPool, EveryThreadRunsEveryJobOnce) {
  for (const uint32_t threads : {1U, 2U, 3U, 4U}) {
    ThreadPool pool(threads);
    std::vector<uint32_t> runs(threads, 0);
    for (int job = 0; job < 200; ++job) {
      pool.run([&](uint32_t thread) { ++runs[thread]; });
    }
    for (const uint32_t count : runs) {
      EXPECT_EQ(count, 200U);
    }
  }
}

TEST(ThreadPool, NothingPassesABarrierEarlyAndWritesBeforeItAreSeen) {
  ThreadPool pool(4);
  std::array<uint32_t, 4> values{};
  std::atomic<uint32_t> wrong{0};
  pool.run([&](uint32_t thread) {
    for (uint32_t round = 1; round <= 500; ++round) {
      values[thread] = round;
      pool.barrier();
      for (const uint32_t value : values) {
        wrong += value != round ? 1U : 0U;
      }
      pool.barrier();
    }
  });
  EXPECT_EQ(wrong.load(), 0U);
}

TEST(ThreadPool, WakesAfterItHasParked) {
  ThreadPool pool(2);
  std::atomic<uint32_t> count{0};
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pool.run([&](uint32_t) { ++count; });
  }
  EXPECT_EQ(count.load(), 6U);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // sanitizers need the address space that this test takes away
/// Starts more threads than fit in a gigabyte of stacks; exits 3 when that is an Error(kMemory).
[[noreturn]] void start_too_many_threads() {
  const rlimit limit{uint64_t{1} << 30, uint64_t{1} << 30};
  setrlimit(RLIMIT_AS, &limit);
  try {
    const ThreadPool pool(4096);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(error.code() == ErrorCode::kMemory ? 3 : 4);
  }
  std::_Exit(0);
}

TEST(ThreadPool, ATeamThatTheSystemCannotStartIsAnError) {
  EXPECT_EXIT(start_too_many_threads(), testing::ExitedWithCode(3), "cannot start thread");
}
#endif

/// A quantised matrix in memory: codes count up, scales and biases tell their row and group.
struct Matrix {
  Matrix(uint32_t row_count, uint32_t col_count, uint32_t width) : codes(size_t{row_count} * col_count * width / 8) {
    tensor.name = "matrix";
    tensor.bits = width;
    tensor.rows = row_count;
    tensor.cols = col_count;
    std::iota(codes.begin(), codes.end(), uint8_t{1});
    for (uint32_t i = 0; i < row_count * (col_count / 64); ++i) {
      scales.push_back(to_bf16(static_cast<float>(i + 1)).bits);
      biases.push_back(to_bf16(-static_cast<float>(i + 1)).bits);
    }
    tensor.codes = reinterpret_cast<const std::byte*>(codes.data());
    tensor.scales = reinterpret_cast<const std::byte*>(scales.data());
    tensor.biases = reinterpret_cast<const std::byte*>(biases.data());
  }
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scales;
  std::vector<uint16_t> biases;
  QuantTensor tensor;
};

float repacked_at(const cpu::CpuWeight& weight, uint32_t row, uint32_t col) {
  const std::byte* group =
      weight.block(0, row / 16) + (col / 64) * (weight.bits == 4 ? cpu::kGroupBytes4 : cpu::kGroupBytes8);
  const uint32_t k = col % 64;
  const uint32_t lane = row % 16;
  uint32_t word = 0;
  std::memcpy(&word, group + 64 * (weight.bits == 4 ? k / 8 : 2 * (k / 8) + k % 2) + 4 * lane, 4);
  const uint32_t code = weight.bits == 4 ? (word >> (4 * (k % 8))) & 15U : (word >> (8 * (k % 8 / 2))) & 255U;
  Bf16 scale;
  Bf16 bias;
  const size_t code_bytes = weight.bits == 4 ? 512 : 1024;
  std::memcpy(&scale.bits, group + code_bytes + 2 * lane, 2);
  std::memcpy(&bias.bits, group + code_bytes + 32 + 2 * lane, 2);
  return to_float(scale) * static_cast<float>(code) + to_float(bias);
}

void expect_rows_kept(const cpu::CpuWeight& weight, const QuantTensor& tensor, uint32_t first_row) {
  for (uint32_t row = 0; row < tensor.rows; ++row) {
    for (uint32_t col = 0; col < tensor.cols; ++col) {
      ASSERT_EQ(repacked_at(weight, first_row + row, col), tensor.view().at(row, col)) << row << ", " << col;
    }
  }
}

TEST(Repack, AStackOfOddHeightsKeepsEveryValue) {
  ThreadPool pool(3);
  const Matrix top(21, 128, 4);
  const Matrix bottom(4, 128, 4);
  const WeightView view{
      .name = "stack", .parts = {&top.tensor, &bottom.tensor}, .plain = nullptr, .rows = 25, .cols = 128};
  const cpu::CpuWeight weight = repack(view, pool);
  EXPECT_EQ(weight.bits, 4U);
  EXPECT_EQ(weight.row_blocks(), 2U);
  expect_rows_kept(weight, top.tensor, 0);
  expect_rows_kept(weight, bottom.tensor, 21);
}

TEST(Repack, MixedWidthsBecomeEightBitsWithTheSameValues) {
  ThreadPool pool(1);
  const Matrix four(16, 64, 4);
  const Matrix eight(3, 64, 8);
  const WeightView view{
      .name = "stack", .parts = {&four.tensor, &eight.tensor}, .plain = nullptr, .rows = 19, .cols = 64};
  const cpu::CpuWeight weight = repack(view, pool);
  EXPECT_EQ(weight.bits, 8U);
  expect_rows_kept(weight, four.tensor, 0);
  expect_rows_kept(weight, eight.tensor, 16);
}

TEST(CpuBackend, WeightsOfTheDemoModelTakeAtMostATenthMoreThanTheFile) {
  const ModelWeights weights = load_weights(std::string(LILY_SOURCE_DIR) + "/models/demo");
  const WeightTable table = weight_table(weights);
  const auto backend = make_cpu_backend({.threads = 2, .simd_level = {}});
  for (const WeightView& view : table.views) {
    backend->adopt(view);
  }
  EXPECT_LE(static_cast<double>(backend->memory().weights_bytes), 1.1 * static_cast<double>(weights.file_bytes()));
  EXPECT_GT(backend->memory().weights_bytes, weights.tensor_bytes() / 2);
}

TEST(CpuBackend, BuffersAreZeroedCountedAndFreed) {
  const auto backend = make_cpu_backend({.threads = 1, .simd_level = {}});
  const BufferHandle a = backend->allocate(4096, "a");
  const BufferHandle b = backend->allocate(8192, "b");
  EXPECT_EQ(backend->memory().buffers_bytes, 12288U);
  std::array<std::byte, 4> out{};
  out.fill(std::byte{9});
  backend->read(b, 8188, out);
  EXPECT_EQ(out[3], std::byte{0});
  const std::array<std::byte, 4> in = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  backend->write(a, 10, in);
  backend->copy(b, 20, a, 10, 4);
  backend->read(b, 20, out);
  EXPECT_EQ(out, in);
  backend->free(a);
  EXPECT_EQ(backend->memory().buffers_bytes, 8192U);
}

TEST(CpuBackend, ARangeOutsideABufferAborts) {
  const auto backend = make_cpu_backend({.threads = 1, .simd_level = {}});
  const BufferHandle buffer = backend->allocate(64, "small");
  std::array<std::byte, 8> bytes{};
  EXPECT_DEATH(backend->read(buffer, 60, bytes), "bytes 60 to 68 of 64");
}

TEST(CpuBackend, AnImpossibleAllocationIsAMemoryError) {
  const auto backend = make_cpu_backend({.threads = 1, .simd_level = {}});
  try {
    backend->allocate(uint64_t{1} << 62, "the moon");
    FAIL() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMemory);
    EXPECT_NE(std::string(error.what()).find("the moon"), std::string::npos);
  }
}

TEST(CpuBackend, ALevelOfAnotherMachineIsRefused) {
#if defined(__x86_64__)
  EXPECT_THROW(make_cpu_backend({.threads = 1, .simd_level = SimdLevel::kNeon}), Error);
#else
  EXPECT_THROW(make_cpu_backend({.threads = 1, .simd_level = SimdLevel::kAvx512}), Error);
#endif
}

TEST(SamplingUniform, IsAPureFunctionInRangeAndSpreads) {
  double sum = 0.0;
  for (uint32_t position = 0; position < 10000; ++position) {
    const double value = cpu::sampling_uniform(42, 0, position);
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    ASSERT_EQ(value, cpu::sampling_uniform(42, 0, position));
    sum += value;
  }
  EXPECT_NEAR(sum / 10000.0, 0.5, 0.02);
  EXPECT_NE(cpu::sampling_uniform(42, 0, 5), cpu::sampling_uniform(42, 1, 5));
  EXPECT_NE(cpu::sampling_uniform(42, 0, 5), cpu::sampling_uniform(43, 0, 5));
}

}  // namespace
}  // namespace lily
