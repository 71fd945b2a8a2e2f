// The layers of the model as ops, shared by the decode and the prefill plan. Owns the buffers that travel between ops.
#pragma once

#include "plan/plan.h"

namespace lily {

/// How the mixture of experts finds the rows of an expert.
enum class ExpertRouting : uint8_t {
  kDirect,   // each row reads its own expert ids (few rows)
  kGrouped,  // rows are grouped by expert on the device first (many rows)
};

/// Buffers of a forward program; temporaries are reused from layer to layer by the memory plan, not by hand.
struct ForwardBuffers {
  Ref mailbox;      // [sequences] i32
  Ref block_table;  // [sequences, blocks] u32
  Ref keys;         // [attention layers][kv blocks, kv heads, 64, 256] act
  Ref values;       // as keys
  Ref state;        // [linear layers][state slots, value heads, 128, 128] f32
  Ref window;       // [linear layers][state slots, 3, channels] act
  Ref logits;       // [logit rows, V] f32
  Ref hidden;       // [layers + 1, rows, H] act, only with capture_hidden
  Ref residual;     // [rows, H] act
};

/// Declares everything that outlives an op; every forward and sample plan of a model declares the same state buffers by
/// name.
ForwardBuffers declare_forward(PlanBuilder& builder);

/// residual = residual + mixer(norm(residual)) + moe(norm(...)) for layer `layer`.
void add_layer(PlanBuilder& builder, const ForwardBuffers& buffers, uint32_t layer, ExpertRouting routing);

/// Copies the residual into slice `index` of the hidden buffer when the plan captures it.
void add_capture(PlanBuilder& builder, const ForwardBuffers& buffers, uint32_t index);

/// Final norm of the rows that need logits, and the head.
void add_head(PlanBuilder& builder, const ForwardBuffers& buffers);

}  // namespace lily
