#include "tests/ops/shapes.h"

namespace lily::ops {
namespace {

/// What all members of the family share.
ModelShape family_shape() {
  ModelShape shape;
  shape.max_positions = 4096;
  shape.rms_eps = 1e-6F;
  shape.layer_kinds = {LayerKind::kLinear, LayerKind::kLinear, LayerKind::kLinear, LayerKind::kAttention};
  shape.head_dim = 256;
  shape.rotary_dim = 64;
  shape.rope_theta = 1e7F;
  shape.key_head_dim = 128;
  shape.value_head_dim = 128;
  shape.conv_width = 4;
  return shape;
}

}  // namespace

ModelShape mini_shape() {
  ModelShape shape = family_shape();
  shape.hidden = 128;
  shape.vocab = 320;
  shape.query_heads = 4;
  shape.kv_heads = 1;
  shape.key_heads = 1;
  shape.value_heads = 2;
  shape.experts = 8;
  shape.experts_per_token = 2;
  shape.expert_intermediate = 64;
  shape.shared_intermediate = 64;
  return shape;
}

ModelShape demo_shape() {
  ModelShape shape = family_shape();
  shape.hidden = 256;
  shape.vocab = 6144;
  shape.query_heads = 8;
  shape.kv_heads = 2;
  shape.key_heads = 2;
  shape.value_heads = 4;
  shape.experts = 32;
  shape.experts_per_token = 8;
  shape.expert_intermediate = 64;
  shape.shared_intermediate = 64;
  return shape;
}

ModelShape large_shape() {
  ModelShape shape = family_shape();
  shape.hidden = 2048;
  shape.vocab = 1024;
  shape.query_heads = 16;
  shape.kv_heads = 2;
  shape.key_heads = 16;
  shape.value_heads = 32;
  shape.experts = 16;
  shape.experts_per_token = 8;
  shape.expert_intermediate = 512;
  shape.shared_intermediate = 512;
  return shape;
}

}  // namespace lily::ops
