// Launches of embedding, Gated DeltaNet, attention, the final norm, and the copy of the residual stream.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/launch.h"

namespace lily::cpu {

using LaunchList = std::vector<std::unique_ptr<Launch>>;

template <typename T>
void lower_embed_tokens(LaunchList& launches, const KernelTable& kernels, const CpuWeight& table,
                        const EmbedTokens& op);

/// Vectors of one Gated DeltaNet layer.
struct DeltaWeights {
  const CpuWeight* conv = nullptr;
  const CpuWeight* a_log = nullptr;
  const CpuWeight* dt_bias = nullptr;
  const CpuWeight* norm = nullptr;
};
template <typename T>
void lower_gated_delta_net(LaunchList& launches, const KernelTable& kernels, const Plan& plan,
                           const DeltaWeights& weights, const GatedDeltaNet& op);

/// angles: [rows, 64] f32, 32 cosines and 32 sines; filled once a step for all attention layers.
void lower_rope_angles(LaunchList& launches, const ModelShape& shape, Ref angles);
template <typename T>
void lower_qk_norm_rope_append(LaunchList& launches, const KernelTable& kernels, const Plan& plan,
                               const CpuWeight& q_norm, const CpuWeight& k_norm, const QkNormRopeAppend& op,
                               Ref angles);
template <typename T>
void lower_attention(LaunchList& launches, const KernelTable& kernels, const Plan& plan, const Attention& op);

template <typename T>
void lower_final_norm(LaunchList& launches, const KernelTable& kernels, const ModelShape& shape, const CpuWeight& gain,
                      const FinalNorm& op);
template <typename T>
void lower_capture_hidden(LaunchList& launches, const ModelShape& shape, const CaptureHidden& op);

}  // namespace lily::cpu
