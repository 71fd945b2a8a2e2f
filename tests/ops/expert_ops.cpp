#include "tests/ops/expert_ops.h"

namespace lily::ops {
namespace {

QuantDims dims(uint32_t experts, uint32_t rows, uint32_t cols, uint32_t bits) {
  return {.experts = experts, .rows = rows, .cols = cols, .bits = bits};
}

}  // namespace

ExpertStores::ExpertStores(const ModelShape& shape, uint32_t bits)
    : gate("gate_proj", dims(shape.experts, shape.expert_intermediate, shape.hidden, bits), 51),
      up("up_proj", dims(shape.experts, shape.expert_intermediate, shape.hidden, bits), 52),
      down("down_proj", dims(shape.experts, shape.hidden, shape.expert_intermediate, bits), 53),
      shared_gate("shared gate_proj", dims(1, shape.shared_intermediate, shape.hidden, 12 - bits), 54),
      shared_up("shared up_proj", dims(1, shape.shared_intermediate, shape.hidden, 12 - bits), 55),
      shared_down("shared down_proj", dims(1, shape.hidden, shape.shared_intermediate, 12 - bits), 56) {}

ref::Routing uneven_routing(const ModelShape& shape, uint32_t rows, uint32_t seed) {
  const size_t width = size_t{shape.experts} + 1;
  Values logits = random_values(rows * width, 1.0, seed);
  for (uint32_t r = 0; r < rows; ++r) {
    logits[r * width + 1] += 3.0;                                // crowded
    if (r != 1) logits[r * width + shape.experts - 1] -= 100.0;  // one row at most
    logits[r * width + 2] -= 200.0;                              // empty
  }
  if (rows > 1) logits[width + shape.experts - 1] += 100.0;
  return ref::router_top_k(logits, shape.experts, shape.experts_per_token);
}

RowInput experts_input(const ref::Routing& routing, uint32_t chosen) {
  return {.name = "experts",
          .type = ElementType::kU32,
          .width = chosen,
          .values = Values(routing.experts.begin(), routing.experts.end())};
}

Ref add_groups(OpRig& rig, const RowOp& op) {
  if (op.mode == PlanMode::kDecode) return {};
  const uint64_t pairs = uint64_t{op.rows} * op.shape.experts_per_token;
  const Ref groups = rig.buffer("groups", ElementType::kU32, op.shape.experts + 1 + pairs);
  rig.add(ExpertGroup{.experts = rig.buffer("experts"), .groups = groups});
  return groups;
}

}  // namespace lily::ops
