// Reference of qk_norm_rope_append and attention. Keys and values of a sequence are plain lists by position; blocks and
// block tables are the backends' business.
#pragma once

#include <cstdint>
#include <span>

#include "tests/ref/values.h"

namespace lily::ref {

struct AttentionParams {
  uint32_t query_heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 256;
  uint32_t rotary_dim = 64;
  float theta = 1e7F;
  double eps = 1e-6;
  Values q_norm;  // [head_dim]
  Values k_norm;  // [head_dim]
  Rounding rounding = Rounding::kNone;

  uint32_t query_dim() const { return query_heads * head_dim; }
  uint32_t kv_dim() const { return kv_heads * head_dim; }
  /// Width of a projection row: (query | gate) per head, then keys, then values.
  uint32_t proj_width() const { return 2 * query_dim() + 2 * kv_dim(); }
};

/// Keys and values of one sequence, [positions, kv heads, head_dim].
struct KvLists {
  Values keys;
  Values values;
};

/// The angle of rotary pair `pair` at `position`, formed in float as the model does.
float rope_angle(const AttentionParams& params, uint32_t position, uint32_t pair);

/// Rotary embedding of one head, in place, unrounded.
void turn(const AttentionParams& params, uint32_t position, std::span<double> head);

/// Appends the rows of one run, whose first lies at `first_position` (what the lists hold beyond it is dropped), and
/// returns the queries [rows, query_dim]. Queries and keys are rounded after the norm and after the rotation.
Values qk_norm_rope_append(const AttentionParams& params, const Values& proj, uint32_t first_position, KvLists& lists);

/// out [rows, query_dim], unrounded; row r sees positions 0 .. first_position + r.
Values attention(const AttentionParams& params, const Values& query, const Values& proj, uint32_t first_position,
                 const KvLists& lists);

}  // namespace lily::ref
