// Reference of the mixture of experts: norm_router, router_top_k, expert_group, expert_gate_up, expert_down_combine.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/ref/matrix.h"
#include "tests/ref/values.h"

namespace lily::ref {

/// The matrices of one layer. Stacks as in the weight table: gate and up rows together, router and shared gate
/// together.
struct ExpertWeights {
  Matrix router;                            // [E + 1, H]
  std::vector<const QuantTensor*> gate_up;  // E × [2 I, H]
  std::vector<const QuantTensor*> down;     // E × [H, I]
  Matrix shared_gate_up;                    // [2 Is, H]
  Matrix shared_down;                       // [H, Is]
};

struct NormedLogits {
  Values normed;  // [rows, H], rounded
  Values logits;  // [rows, E + 1]
};
NormedLogits norm_router(const Matrix& router, const Values& gain, double eps, const Values& residual,
                         Rounding rounding);

struct Routing {
  std::vector<uint32_t> experts;  // [rows, k], by falling logit, ties to the lower id
  Values scores;                  // [rows, k + 1], the last one for the shared expert
};
/// logits [rows, experts + 1].
Routing router_top_k(const Values& logits, uint32_t experts, uint32_t chosen);

/// [experts + 1] offsets, then [pairs] pair indices, ascending inside an expert.
std::vector<uint32_t> expert_group(const std::vector<uint32_t>& chosen, uint32_t experts);

/// silu(gate · x) ⊙ (up · x), unrounded; weight [2 I, H], x [rows, H], out [rows, I].
Values gate_up(const Matrix& weight, const Values& x);

struct ExpertHidden {
  Values hidden;  // [rows · k, I], rounded
  Values shared;  // [rows, Is], rounded
};
ExpertHidden expert_gate_up(const ExpertWeights& weights, const Values& normed, const std::vector<uint32_t>& chosen,
                            Rounding rounding);

/// residual = round(residual + Σ_j score_j · down_e(j) · hidden_j + shared score · shared down · shared).
void expert_down_combine(const ExpertWeights& weights, const ExpertHidden& hidden, const Routing& routing,
                         Values& residual, Rounding rounding);

}  // namespace lily::ref
