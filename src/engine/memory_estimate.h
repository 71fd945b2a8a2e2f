// What a model with a context needs in memory, from its configuration and file sizes alone, and what the machine has.
#pragma once

#include <cstdint>
#include <string>

#include "model/shape.h"
#include "plan/plan.h"

namespace lily {

struct MemoryEstimate {
  uint64_t weights_bytes = 0;    // as stored in the checkpoint; a backend's layout differs by a few per cent
  uint64_t kv_bytes = 0;         // the block pool: all sequences at full context
  uint64_t state_bytes = 0;      // recurrent states and conv windows
  uint64_t logits_bytes = 0;     // logits, token counts, results
  uint64_t workspace_bytes = 0;  // temporaries of the largest prefill chunk, before aliasing
  uint64_t total_bytes() const { return weights_bytes + kv_bytes + state_bytes + logits_bytes + workspace_bytes; }
};

/// State sizes for `sequences` sequences of up to `context` tokens; `logit_rows` rows of logits, at least one a
/// sequence.
StateSizes state_sizes(uint32_t sequences, uint32_t context, uint32_t logit_rows);

/// `weights_bytes`: ModelWeights::tensor_bytes(), or the size of the shards. `prefill_rows`: the largest chunk.
MemoryEstimate estimate_memory(const ModelShape& shape, const StateSizes& sizes, ActivationType activation,
                               uint64_t weights_bytes, uint32_t prefill_rows);

/// Memory of this machine that the process may use: physical memory, or the control group's limit where it is lower.
uint64_t usable_memory_bytes();

/// Throws Error(kMemory) with every number when the estimate exceeds `usable_bytes`.
void check_memory(const MemoryEstimate& estimate, uint32_t context, uint64_t usable_bytes);

/// "20.3 GB", "512 MB", "17 kB": powers of ten, for people.
std::string format_bytes(uint64_t bytes);

}  // namespace lily
