#include "engine/memory_estimate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "plan/step.h"

namespace lily {
namespace {

/// Temporaries of one row, all counted as alive at once, and room for a backend's own: every expert's output in f32 and
/// inputs of products in another form. An upper bound that is small next to weights and KV.
uint64_t workspace_row_bytes(const ModelShape& shape, uint64_t act) {
  const uint64_t linear = uint64_t{shape.conv_channels()} + 2ULL * shape.value_dim() + 2ULL * shape.value_heads;
  const uint64_t attention = 4ULL * shape.query_dim() + 2ULL * shape.kv_dim();
  const uint64_t experts = uint64_t{shape.experts_per_token} * shape.expert_intermediate + shape.shared_intermediate;
  return (2ULL * shape.hidden + std::max(linear, attention) + experts) * act +
         (shape.experts + 1ULL + 4ULL * shape.experts_per_token) * sizeof(float) +
         (shape.experts_per_token + 1ULL) * (shape.hidden + 2ULL * shape.expert_intermediate) * sizeof(float) +
         2ULL * shape.hidden * sizeof(float);
}

/// The memory limit of the control group, where there is one.
uint64_t group_limit() {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    uint64_t limit = 0;
    if (file >> limit && limit > 0) {
      return limit;
    }
  }
  return UINT64_MAX;
}

}  // namespace

StateSizes state_sizes(uint32_t sequences, uint32_t context, uint32_t logit_rows) {
  StateSizes sizes;
  sizes.sequences = sequences;
  sizes.state_slots = sequences;
  sizes.blocks_a_sequence = context / kKvBlockTokens + (context % kKvBlockTokens == 0 ? 0U : 1U);
  const uint64_t blocks = uint64_t{sequences} * sizes.blocks_a_sequence;
  if (blocks > UINT32_MAX) {
    throw Error(ErrorCode::kMemory, "{} sequences of {} tokens need more KV blocks than can be numbered", sequences,
                context);
  }
  sizes.kv_blocks = static_cast<uint32_t>(blocks);
  sizes.max_logit_rows = std::max(logit_rows, sequences);
  return sizes;
}

MemoryEstimate estimate_memory(const ModelShape& shape, const StateSizes& sizes, ActivationType activation,
                               uint64_t weights_bytes, uint32_t prefill_rows) {
  const uint64_t act = activation_bytes(activation);
  MemoryEstimate estimate;
  estimate.weights_bytes = weights_bytes;
  estimate.kv_bytes = uint64_t{sizes.kv_blocks} * kKvBlockTokens * shape.kv_bytes_per_token(act);
  estimate.state_bytes = sizes.state_slots * (shape.recurrent_state_bytes() + shape.conv_window_bytes(act));
  estimate.logits_bytes = uint64_t{sizes.max_logit_rows} * shape.vocab * sizeof(float) +
                          uint64_t{sizes.sequences} * shape.vocab * sizeof(uint32_t) +
                          uint64_t{kStepRing} * sizes.max_logit_rows * sizeof(SampleResult) +
                          uint64_t{sizes.sequences} * (sizes.blocks_a_sequence + 1) * sizeof(uint32_t);
  estimate.workspace_bytes =
      prefill_rows * workspace_row_bytes(shape, act) + uint64_t{sizes.max_logit_rows} * shape.hidden * act;
  return estimate;
}

uint64_t usable_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) {
    return UINT64_MAX;
  }
  return std::min(static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes), group_limit());
}

void check_memory(const MemoryEstimate& estimate, uint32_t context, uint64_t usable_bytes) {
  if (estimate.total_bytes() > usable_bytes) {
    throw Error(
        ErrorCode::kMemory,
        "a context of {} tokens needs {} (weights {}, KV cache {}, recurrent state {}, logits {}, workspace {}), "
        "and this machine has {}: choose a smaller context",
        context, format_bytes(estimate.total_bytes()), format_bytes(estimate.weights_bytes),
        format_bytes(estimate.kv_bytes), format_bytes(estimate.state_bytes), format_bytes(estimate.logits_bytes),
        format_bytes(estimate.workspace_bytes), format_bytes(usable_bytes));
  }
}

std::string format_bytes(uint64_t bytes) {
  constexpr uint64_t kKilo = 1000;
  constexpr uint64_t kMega = kKilo * kKilo;
  constexpr uint64_t kGiga = kMega * kKilo;
  const auto scaled = [&](uint64_t unit, const char* suffix) {
    const double value = static_cast<double>(bytes) / static_cast<double>(unit);
    return value < 100 ? fmt::format("{:.1f} {}", value, suffix) : fmt::format("{:.0f} {}", value, suffix);
  };
  if (bytes >= kGiga) {
    return scaled(kGiga, "GB");
  }
  if (bytes >= kMega) {
    return scaled(kMega, "MB");
  }
  return bytes >= kKilo ? scaled(kKilo, "kB") : fmt::format("{} bytes", bytes);
}

}  // namespace lily
