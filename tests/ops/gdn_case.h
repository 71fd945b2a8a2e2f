// A Gated DeltaNet op with its weights, projections and slots, for the tests of gated_delta_net.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/ops/bounds.h"
#include "tests/ops/op_rig.h"
#include "tests/ops/synthetic.h"
#include "tests/ref/gated_delta_net.h"

namespace lily::ops {

/// Weights of one layer, and the reference's view of them.
struct DeltaStores {
  ref::DeltaParams params;
  std::unique_ptr<PlainStore> conv, a_log, dt_bias, norm;

  /// a_log and norm come as bf16 or f32.
  DeltaStores(const ModelShape& shape, PlainTensor::Dtype dtype);
};

/// Projection rows of one sequence, realistic in size: decays from near 1 to near 0.
Values delta_proj(const ref::DeltaParams& params, uint32_t rows, ActivationType type, uint32_t seed);

/// Reference outputs of a sequence from its start, with bounds, and the state after any row asked for.
class DeltaReference {
 public:
  DeltaReference(const ref::DeltaParams& params, Values proj, ActivationType type);
  const Values& proj() const { return proj_; }
  Values proj_rows(uint32_t first, uint32_t count) const;
  const Expected& out() const { return out_; }
  /// The recurrent state after `rows` rows, [value heads, 128, 128] with bounds.
  const Expected& state_after(uint32_t rows) const;
  /// The window after `rows` rows, [3, channels]; exact.
  Values window_after(uint32_t rows) const;

 private:
  const ref::DeltaParams& params_;
  Values proj_;
  Expected out_;
  mutable std::map<uint32_t, Expected> states_;  // by rows, made when first asked for
};

/// The op compiled by one backend, with `slots` state slots and room for `rows` rows. All slots start as NaN.
class DeltaRig {
 public:
  DeltaRig(Backend& backend, const ModelShape& shape, const DeltaStores& stores, ActivationType type, uint32_t rows,
           uint32_t slots);

  /// One step; projections of the runs one after the other. Returns the outputs' bytes.
  Bytes run(const std::vector<Run>& runs, const Values& proj);
  Bytes state(uint32_t slot) { return rig_.read("state", slot * state_width_, state_width_); }
  Bytes window(uint32_t slot) { return rig_.read("window", slot * window_width_, window_width_); }
  size_t out_row_bytes() const { return out_width_ * rig_.element_bytes("out"); }

  void expect_out(const Bytes& bytes, const DeltaReference& reference, uint32_t first_row, const std::string& what);
  void expect_state(uint32_t slot, const DeltaReference& reference, uint32_t rows, const std::string& what);

 private:
  ActivationType type_;
  uint64_t out_width_;
  uint64_t state_width_;
  uint64_t window_width_;
  uint64_t proj_width_;
  OpRig rig_;
};

/// A run of one sequence in place in `slot`; first_row is set by DeltaRig::run.
Run delta_run(uint32_t slot, uint32_t first_position, uint32_t rows);

}  // namespace lily::ops
