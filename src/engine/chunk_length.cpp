#include "engine/chunk_length.h"

#include <algorithm>

namespace lily {

void ChunkLength::measured(uint32_t rows, double ms) {
  if (rows * 2 < rows_) {
    return;
  }
  // At most doubled: the rate of a short chunk is no promise for a long one.
  const double limit = std::min(2.0 * rows_, static_cast<double>(max_rows_));
  const double fitting = ms > 0 ? std::min(rows * kTargetMs / ms, limit) : limit;
  rows_ = std::max(static_cast<uint32_t>(fitting) / kStep * kStep, kStep);
}

}  // namespace lily
