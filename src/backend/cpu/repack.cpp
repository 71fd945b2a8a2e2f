#include "backend/cpu/repack.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lily::cpu {
namespace {

/// One row of a stack: where its codes, scales and biases lie.
struct SourceRow {
  const std::byte* codes;
  const std::byte* scales;
  const std::byte* biases;
  uint32_t bits;
};

SourceRow source_row(const WeightView& view, uint32_t expert, uint32_t row) {
  for (const QuantTensor* part : view.parts) {
    if (row < part->rows) {
      const QuantView matrix = part->expert(expert);
      const size_t factor_bytes = size_t{matrix.groups_per_row()} * 2;
      return {matrix.codes + row * matrix.code_row_bytes(), matrix.scales + row * factor_bytes,
              matrix.biases + row * factor_bytes, matrix.bits};
    }
    row -= part->rows;
  }
  LILY_CHECK(false, "{}: row outside the stack", view.name);
  return {};
}

uint32_t load_word(const std::byte* from) {
  uint32_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// Writes one group of one row into lane `lane` of its block.
void pack_group(const SourceRow& source, uint32_t group, uint32_t bits, uint32_t lane, std::byte* to) {
  if (bits == 4) {
    for (uint32_t word = 0; word < 8; ++word) {
      std::memcpy(to + 64 * word + 4 * lane, source.codes + (size_t{group} * 8 + word) * 4, 4);
    }
  } else {
    for (uint32_t word = 0; word < 8; ++word) {
      uint8_t codes[8];
      if (source.bits == 8) {
        std::memcpy(codes, source.codes + size_t{group} * 64 + 8 * word, 8);
      } else {
        const uint32_t packed = load_word(source.codes + (size_t{group} * 8 + word) * 4);
        for (uint32_t i = 0; i < 8; ++i) {
          codes[i] = static_cast<uint8_t>((packed >> (4 * i)) & 15U);
        }
      }
      const uint8_t even[4] = {codes[0], codes[2], codes[4], codes[6]};
      const uint8_t odd[4] = {codes[1], codes[3], codes[5], codes[7]};
      std::memcpy(to + 128 * word + 4 * lane, even, 4);
      std::memcpy(to + 128 * word + 64 + 4 * lane, odd, 4);
    }
  }
  const size_t code_bytes = bits == 4 ? kGroupBytes4 - 64 : kGroupBytes8 - 64;
  std::memcpy(to + code_bytes + 2 * lane, source.scales + size_t{group} * 2, 2);
  std::memcpy(to + code_bytes + 32 + 2 * lane, source.biases + size_t{group} * 2, 2);
}

}  // namespace

CpuWeight repack(const WeightView& view, ThreadPool& pool) {
  CpuWeight weight;
  if (view.plain != nullptr) {
    weight.plain = view.plain->values();
    return weight;
  }
  weight.experts = view.experts;
  weight.rows = view.rows;
  weight.cols = view.cols;
  weight.bits = 4;
  for (const QuantTensor* part : view.parts) {
    LILY_CHECK(part->bits == 4 || part->bits == 8, "{}: {} bits", part->name, part->bits);
    weight.bits = std::max(weight.bits, part->bits);
  }
  const uint64_t blocks = uint64_t{weight.experts} * weight.row_blocks();
  weight.blocks = Memory(blocks * weight.block_bytes(), view.name);
  pool.run([&](uint32_t thread) {
    const uint64_t begin = blocks * thread / pool.threads();
    const uint64_t end = blocks * (thread + 1) / pool.threads();
    for (uint64_t index = begin; index < end; ++index) {
      const auto expert = static_cast<uint32_t>(index / weight.row_blocks());
      const uint32_t first = static_cast<uint32_t>(index % weight.row_blocks()) * kBlockRows;
      std::byte* block = weight.blocks.data() + index * weight.block_bytes();
      for (uint32_t lane = 0; lane < kBlockRows && first + lane < weight.rows; ++lane) {
        const SourceRow source = source_row(view, expert, first + lane);
        for (uint32_t group = 0; group < weight.groups(); ++group) {
          pack_group(source, group, weight.bits, lane, block + group * (weight.block_bytes() / weight.groups()));
        }
      }
    }
  });
  return weight;
}

}  // namespace lily::cpu
