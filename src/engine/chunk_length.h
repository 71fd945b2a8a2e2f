// How many prompt tokens are fed at once: as many as take about a fifth of a second, so that a cancel is seen in time
// and decoding goes on between chunks.
#pragma once

#include <cstdint>

namespace lily {

class ChunkLength {
 public:
  static constexpr double kTargetMs = 200;
  static constexpr uint32_t kStep = 64;  // chunks end at multiples of this position

  explicit ChunkLength(uint32_t max_rows) : max_rows_(max_rows) {}
  /// A multiple of 64, at most max_rows.
  uint32_t rows() const { return rows_; }
  /// Learns from a chunk that took `ms`. Much shorter chunks than rows() say little and are ignored.
  void measured(uint32_t rows, double ms);

 private:
  uint32_t max_rows_;
  uint32_t rows_ = kStep;
};

}  // namespace lily
