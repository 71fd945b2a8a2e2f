// The operations of a step: small structs with named operands, and what each one reads and writes.
// Owns the vocabulary of the plan; how an operation is computed is the backends' business, its meaning is pinned by
// tests/ref.
//
// Shapes use: rows = rows of the step, H = hidden, V = vocabulary, E = experts, k = experts a token, I = expert width,
// Is = shared expert width. "act" is the plan's activation type (bf16 or f32). Step arguments (runs, positions, token
// sources, sampling parameters; plan/step.h) are read by every op, written by none, and therefore not listed as
// operands.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace lily {

/// A range of bytes in one buffer of the plan.
struct Ref {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t buffer = kNone;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool valid() const { return buffer != kNone; }
};

/// One entry of the weight table (plan/weight_table.h): a stack of quantised matrices, or a plain vector.
struct Weight {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t index = kNone;
};

/// out[r] = row `token(r)` of the table; the token comes from the step or from a mailbox slot.
struct EmbedTokens {
  Weight table;  // [V, H]
  Ref mailbox;   // [slots] i32, tokens that sampling left on the device
  Ref out;       // [rows, H] act
};

/// out = W · round(rmsnorm(x) · gain): a mixer's input projection with its norm.
struct NormLinear {
  Ref x;          // [rows, H] act
  Weight gain;    // [H]
  Weight weight;  // [N, H], a stack
  Ref out;        // [rows, N] act
};

/// residual += W · x.
struct LinearResidual {
  Weight weight;  // [H, K]
  Ref x;          // [rows, K] act
  Ref residual;   // [rows, H] act
};

/// Gated DeltaNet of one layer: causal conv + SiLU, l2 norms, decay and write strength, delta rule, gated norm (spec:
/// model facts, section 4).
struct GatedDeltaNet {
  Ref proj;        // [rows, qkv | z | a | b] act
  Weight conv;     // [channels, 4]
  Weight a_log;    // [value heads]
  Weight dt_bias;  // [value heads]
  Weight norm;     // [128]
  Ref state;       // [slots, value heads, 128 K, 128 V] f32; a run reads state_in and writes state_out
  Ref window;      // [slots, 3, channels] act, the last three pre-conv rows
  Ref out;         // [rows, value heads · 128] act
};

/// q and k norm, rotary embedding, and the append of k and v to the KV blocks.
struct QkNormRopeAppend {
  Ref proj;       // [rows, (q | gate) per head | k | v] act
  Weight q_norm;  // [256]
  Weight k_norm;  // [256]
  Ref query;      // [rows, query heads · 256] act
  Ref keys;       // [blocks, kv heads, 64, 256] act, order inside a block is the backend's
  Ref values;     // [blocks, kv heads, 64, 256] act
  Ref block_table;
};

/// out = softmax(q·k/16, causal) · v, times sigmoid(gate).
struct Attention {
  Ref query;        // [rows, query heads · 256] act
  Ref proj;         // the gates lie in the projection
  Ref keys;         // as above
  Ref values;       // as above
  Ref block_table;  // [slots, blocks a slot] u32
  Ref out;          // [rows, query heads · 256] act
};

/// normed = round(rmsnorm(residual) · gain); logits = router · normed. The last router row is the shared expert's gate.
struct NormRouter {
  Ref residual;   // [rows, H] act
  Weight gain;    // [H]
  Weight router;  // [E + 1, H], a stack
  Ref normed;     // [rows, H] act
  Ref logits;     // [rows, E + 1] f32
};

/// The k largest logits (ties to the lower expert), softmax over them, and sigmoid of the shared gate.
struct RouterTopK {
  Ref logits;   // [rows, E + 1] f32
  Ref experts;  // [rows, k] u32
  Ref scores;   // [rows, k + 1] f32, the last one for the shared expert
};

/// Rows grouped by expert: histogram, exclusive scan, scatter. Ascending order of (row · k + choice) inside an expert.
struct ExpertGroup {
  Ref experts;  // [rows, k] u32
  Ref groups;   // [E + 1] u32 offsets, then [rows · k] u32 pair indices
};

/// hidden = silu(gate · normed) ⊙ (up · normed) for every chosen expert, and for the shared one.
struct ExpertGateUp {
  Ref normed;             // [rows, H] act
  Ref experts;            // [rows, k] u32
  Ref groups;             // from ExpertGroup; none in decode, where the backend reads `experts`
  Weight gate_up;         // E × [2 I, H]
  Weight shared_gate_up;  // [2 Is, H]
  Ref hidden;             // [rows · k, I] act
  Ref shared_hidden;      // [rows, Is] act
};

/// residual += Σ_j score_j · (down_e(j) · hidden_j) + shared score · (shared_down · shared_hidden), summed in top-k
/// order.
struct ExpertDownCombine {
  Weight down;         // E × [H, I]
  Weight shared_down;  // [H, Is]
  Ref hidden;          // [rows · k, I] act
  Ref shared_hidden;   // [rows, Is] act
  Ref experts;         // [rows, k] u32
  Ref groups;          // as ExpertGateUp
  Ref scores;          // [rows, k + 1] f32
  Ref residual;        // [rows, H] act
};

/// out[i] = residual[row listed by the step]: the rows that need logits, in order, normed.
struct FinalNorm {
  Ref residual;  // [rows, H] act
  Weight gain;   // [H]
  Ref out;       // [logit rows, H] act
};

/// logits = W · x in f32.
struct LmHead {
  Weight weight;  // [V, H]
  Ref x;          // [logit rows, H] act
  Ref logits;     // [logit rows, V] f32
};

/// Keeps a copy of the residual stream for whoever compares layers.
struct CaptureHidden {
  Ref residual;  // [rows, H] act
  Ref out;       // [rows, H] act
};

/// Penalties, masks, temperature, filters and the draw, one logit row each (plan/step.h SampleParams); writes the token
/// into its mailbox slot.
struct Sample {
  Ref logits;        // [logit rows, V] f32, left as they are
  Ref token_counts;  // [slots, V] u32: generated count, top bit set where the prompt holds the token
  Ref mailbox;       // [slots] i32
  Ref samples;       // [ring, logit rows] SampleResult
};

using Op =
    std::variant<EmbedTokens, NormLinear, LinearResidual, GatedDeltaNet, QkNormRopeAppend, Attention, NormRouter,
                 RouterTopK, ExpertGroup, ExpertGateUp, ExpertDownCombine, FinalNorm, LmHead, CaptureHidden, Sample>;

/// One operand of an op as the schedule sees it.
struct Access {
  Ref ref;
  bool writes = false;  // false: read only; true: written (and possibly read)
};

/// What an op reads and writes, weights excluded (nothing ever writes them).
std::vector<Access> accesses(const Op& op);
/// The weights an op reads.
std::vector<Weight> weights(const Op& op);
/// The op's name in snake case, the same in every layer of the program (`norm_linear`).
std::string_view name(const Op& op);

}  // namespace lily
