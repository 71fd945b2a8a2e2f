// Reference of gated_delta_net: causal conv, l2 norms, decay and write strength, the delta rule as the token
// recurrence, gated norm. Also the chunked (WY) form of the recurrence, which parallel devices use.
#pragma once

#include <cstdint>

#include "tests/ref/values.h"

namespace lily::ref {

constexpr uint32_t kDeltaHeadDim = 128;  // of keys and of values

struct DeltaParams {
  uint32_t key_heads = 0;
  uint32_t value_heads = 0;
  double eps = 1e-6;  // of the gated norm; the l2 norms use 1e-6 always
  Values conv;        // [channels, 4], the last tap is the current row
  Values a_log;       // [value heads]
  Values dt_bias;     // [value heads]
  Values norm;        // [128]

  uint32_t key_dim() const { return key_heads * kDeltaHeadDim; }
  uint32_t value_dim() const { return value_heads * kDeltaHeadDim; }
  uint32_t channels() const { return 2 * key_dim() + value_dim(); }
  /// Width of a projection row: qkv | z | a | b.
  uint32_t proj_width() const { return channels() + value_dim() + 2 * value_heads; }
};

/// What a sequence carries from row to row in one layer.
struct DeltaState {
  Values state;   // [value heads, 128 K, 128 V]
  Values window;  // [3, channels], the last three pre-conv rows, oldest first

  explicit DeltaState(const DeltaParams& params)
      : state(size_t{params.value_heads} * kDeltaHeadDim * kDeltaHeadDim), window(size_t{3} * params.channels()) {}
};

/// Inputs of the delta rule for one value head, over consecutive rows.
struct DeltaHead {
  Values query;  // [rows, 128], normalised and scaled
  Values key;    // [rows, 128], normalised
  Values value;  // [rows, 128]
  Values decay;  // [rows], g = log of the decay, at most 0
  Values beta;   // [rows], write strength

  size_t rows() const { return beta.size(); }
};

/// out [rows, 128]; state [128 K, 128 V] in and out; row after row.
Values delta_recurrence(const DeltaHead& head, std::span<double> state);
/// The same in chunks of at most `chunk` rows by the WY form.
Values delta_chunked(const DeltaHead& head, size_t chunk, std::span<double> state);

/// The rows of one run. proj [rows, proj_width]; out [rows, value_dim], unrounded.
Values gated_delta_net(const DeltaParams& params, const Values& proj, DeltaState& carried);

}  // namespace lily::ref
