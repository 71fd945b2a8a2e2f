// Weights, routing and plans shared by the tests of expert_gate_up and expert_down_combine.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/ops/row_op.h"
#include "tests/ops/synthetic.h"
#include "tests/ref/experts.h"

namespace lily::ops {

/// One layer's expert matrices; routed ones with `bits`, shared ones with the other width.
struct ExpertStores {
  QuantStore gate, up, down;
  QuantStore shared_gate, shared_up, shared_down;

  ExpertStores(const ModelShape& shape, uint32_t bits);
  std::vector<const QuantTensor*> gate_up() const { return {&gate.tensor(), &up.tensor()}; }
  std::vector<const QuantTensor*> shared_gate_up() const { return {&shared_gate.tensor(), &shared_up.tensor()}; }
};

/// A routing with crowded, single and empty experts.
ref::Routing uneven_routing(const ModelShape& shape, uint32_t rows, uint32_t seed);

/// experts as a row input.
RowInput experts_input(const ref::Routing& routing, uint32_t chosen);

/// Adds ExpertGroup where the mode is prefill; none otherwise, as the plans do.
Ref add_groups(OpRig& rig, const RowOp& op);

}  // namespace lily::ops
