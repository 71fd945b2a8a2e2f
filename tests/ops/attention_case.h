// qk_norm_rope_append and attention as a pair, with block pool and tables: the order inside a block is the backend's,
// so keys and values are only seen through attention.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/ops/bounds.h"
#include "tests/ops/op_rig.h"
#include "tests/ops/synthetic.h"
#include "tests/ref/attention.h"

namespace lily::ops {

struct AttentionStores {
  ref::AttentionParams params;  // unrounded
  std::unique_ptr<PlainStore> q_norm, k_norm;

  explicit AttentionStores(const ModelShape& shape);
};

/// Projection rows of one sequence.
Values attention_proj(const ref::AttentionParams& params, uint32_t rows, ActivationType type, uint32_t seed);

/// One sequence from its start: queries of all rows, and outputs of the rows asked for.
class AttentionReference {
 public:
  AttentionReference(const ref::AttentionParams& params, Values proj, ActivationType type);
  Values proj_rows(uint32_t first, uint32_t count) const;
  const Expected& query() const { return query_; }
  /// [query dim] of the row at `position`.
  const Expected& out(uint32_t position) const;

 private:
  const ref::AttentionParams& params_;
  ActivationType type_;
  Values proj_;
  Expected query_;
  Expected stored_query_;  // as attention reads it
  Expected stored_keys_;
  ref::KvLists lists_;
  mutable std::map<uint32_t, Expected> outs_;  // made when first asked for
};

/// Outputs of one step.
struct AttentionBytes {
  Bytes query;
  Bytes out;
  bool operator==(const AttentionBytes&) const = default;
};

class AttentionRig {
 public:
  struct Size {
    uint32_t rows = 1;
    uint32_t sequences = 1;
    uint32_t blocks = 1;  // in the pool
    uint32_t blocks_a_sequence = 1;
  };
  /// The pool starts as NaN, the table as impossible blocks.
  AttentionRig(Backend& backend, const ModelShape& shape, const AttentionStores& stores, ActivationType type,
               const Size& size);

  void set_blocks(uint32_t sequence, const std::vector<uint32_t>& blocks);
  void poison_pool();
  AttentionBytes run(const std::vector<Run>& runs, const Values& proj);
  size_t row_bytes() const { return width_ * rig_.element_bytes("out"); }
  /// Rows [first, first + count) of an answer.
  AttentionBytes rows_of(const AttentionBytes& bytes, uint32_t first, uint32_t count) const;

  /// Compares all queries and every output row whose position `checked` accepts (all when empty).
  void expect_rows(const AttentionBytes& bytes, const AttentionReference& reference, uint32_t first_position,
                   const std::string& what, const std::vector<uint32_t>& checked = {});
  void expect_same(const AttentionBytes& got, const AttentionBytes& wanted, const std::string& what) const;

 private:
  ActivationType type_;
  Size size_;
  uint64_t width_;
  uint64_t proj_width_;
  OpRig rig_;
};

/// A run of one sequence; first_row is set by AttentionRig::run.
Run attention_run(uint32_t sequence, uint32_t first_position, uint32_t rows);

}  // namespace lily::ops
