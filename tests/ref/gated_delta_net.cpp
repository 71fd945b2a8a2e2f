#include "tests/ref/gated_delta_net.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace lily::ref {
namespace {

constexpr size_t kDim = kDeltaHeadDim;

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// x · rsqrt(Σx² + 1e-6), the Hugging Face form.
void l2_normalise(std::span<double> x, double scale) {
  const double factor = scale / std::sqrt(dot(x, x) + 1e-6);
  for (double& value : x) value *= factor;
}

/// conv + silu of every row, [rows, channels]; moves the window on.
Values convolve(const DeltaParams& params, const Values& proj, Values& window) {
  const size_t channels = params.channels();
  const size_t width = params.proj_width();
  const size_t rows = proj.size() / width;
  Values history = window;  // three carried rows, then the rows of the run
  for (size_t r = 0; r < rows; ++r) {
    const auto row = row_of(proj, r, width).first(channels);
    history.insert(history.end(), row.begin(), row.end());
  }
  Values out(rows * channels);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (size_t tap = 0; tap < 4; ++tap) sum += params.conv[c * 4 + tap] * history[(r + tap) * channels + c];
      out[r * channels + c] = silu(sum);
    }
  }
  window.assign(history.end() - static_cast<std::ptrdiff_t>(3 * channels), history.end());
  return out;
}

void append(Values& to, std::span<const double> values) {
  to.insert(to.end(), values.begin(), values.end());
}

DeltaHead head_inputs(const DeltaParams& params, const Values& proj, const Values& conv, size_t head) {
  const size_t channels = params.channels();
  const size_t width = params.proj_width();
  const size_t key_head = head / (params.value_heads / params.key_heads);
  const size_t a_at = channels + params.value_dim();
  const size_t b_at = a_at + params.value_heads;
  DeltaHead inputs;
  for (size_t r = 0; r < proj.size() / width; ++r) {
    const auto row = row_of(conv, r, channels);
    append(inputs.query, row.subspan(key_head * kDim, kDim));
    append(inputs.key, row.subspan(params.key_dim() + key_head * kDim, kDim));
    append(inputs.value, row.subspan(size_t{2} * params.key_dim() + head * kDim, kDim));
    l2_normalise(row_of(inputs.query, r, kDim), 1.0 / std::sqrt(static_cast<double>(kDim)));
    l2_normalise(row_of(inputs.key, r, kDim), 1.0);
    const double a = proj[r * width + a_at + head];
    const double b = proj[r * width + b_at + head];
    inputs.decay.push_back(-std::exp(params.a_log[head]) * softplus(a + params.dt_bias[head]));
    inputs.beta.push_back(sigmoid(b));
  }
  return inputs;
}

/// One chunk of the WY form: rows [first, first + n) of the head.
struct Chunk {
  const DeltaHead& head;
  size_t first;
  size_t n;
  Values sums;  // cumulative decay inside the chunk

  Chunk(const DeltaHead& inputs, size_t first_row, size_t rows) : head(inputs), first(first_row), n(rows), sums(rows) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sums[i] = sum += head.decay[first + i];
  }
  std::span<const double> query(size_t i) const { return row_of(head.query, first + i, kDim); }
  std::span<const double> key(size_t i) const { return row_of(head.key, first + i, kDim); }
  std::span<const double> value(size_t i) const { return row_of(head.value, first + i, kDim); }
  double beta(size_t i) const { return head.beta[first + i]; }
  /// exp(G_i - G_j), for j ≤ i only: above the diagonal it could overflow.
  double decay(size_t i, size_t j) const { return std::exp(sums[i] - sums[j]); }

  /// Solves (I + A) X = right by forward substitution, A_ij = beta_i · decay(i, j) · (k_i · k_j) for j < i.
  void solve(Values& right) const {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < i; ++j) {
        const double a = beta(i) * decay(i, j) * dot(key(i), key(j));
        for (size_t d = 0; d < kDim; ++d) right[i * kDim + d] -= a * right[j * kDim + d];
      }
    }
  }

  /// N = U - W S: what each row writes, given the state before the chunk.
  Values new_values(std::span<const double> state) const {
    Values u(n * kDim);
    Values w(n * kDim);
    for (size_t i = 0; i < n; ++i) {
      for (size_t d = 0; d < kDim; ++d) {
        u[i * kDim + d] = beta(i) * value(i)[d];
        w[i * kDim + d] = beta(i) * std::exp(sums[i]) * key(i)[d];
      }
    }
    solve(u);
    solve(w);
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < kDim; ++k) {
        for (size_t d = 0; d < kDim; ++d) u[i * kDim + d] -= w[i * kDim + k] * state[k * kDim + d];
      }
    }
    return u;
  }
};

}  // namespace

Values delta_recurrence(const DeltaHead& head, std::span<double> state) {
  Values out(head.rows() * kDim);
  for (size_t r = 0; r < head.rows(); ++r) {
    const auto key = row_of(head.key, r, kDim);
    const auto query = row_of(head.query, r, kDim);
    const double alpha = std::exp(head.decay[r]);
    for (double& value : state) value *= alpha;
    Values delta(kDim);
    for (size_t d = 0; d < kDim; ++d) {
      double read = 0;
      for (size_t k = 0; k < kDim; ++k) read += state[k * kDim + d] * key[k];
      delta[d] = head.beta[r] * (head.value[r * kDim + d] - read);
    }
    for (size_t k = 0; k < kDim; ++k) {
      for (size_t d = 0; d < kDim; ++d) {
        state[k * kDim + d] += key[k] * delta[d];
        out[r * kDim + d] += state[k * kDim + d] * query[k];
      }
    }
  }
  return out;
}

Values delta_chunked(const DeltaHead& head, size_t chunk, std::span<double> state) {
  Values out(head.rows() * kDim);
  for (size_t first = 0; first < head.rows(); first += chunk) {
    const Chunk part(head, first, std::min(chunk, head.rows() - first));
    const Values fresh = part.new_values(state);
    for (size_t i = 0; i < part.n; ++i) {
      const auto row = row_of(out, first + i, kDim);
      for (size_t k = 0; k < kDim; ++k) {
        const double weight = std::exp(part.sums[i]) * part.query(i)[k];
        for (size_t d = 0; d < kDim; ++d) row[d] += weight * state[k * kDim + d];
      }
      for (size_t j = 0; j <= i; ++j) {
        const double weight = part.decay(i, j) * dot(part.query(i), part.key(j));
        for (size_t d = 0; d < kDim; ++d) row[d] += weight * fresh[j * kDim + d];
      }
    }
    for (double& value : state) value *= std::exp(part.sums.back());
    for (size_t i = 0; i < part.n; ++i) {
      const double left = part.decay(part.n - 1, i);
      for (size_t k = 0; k < kDim; ++k) {
        for (size_t d = 0; d < kDim; ++d) state[k * kDim + d] += left * part.key(i)[k] * fresh[i * kDim + d];
      }
    }
  }
  return out;
}

Values gated_delta_net(const DeltaParams& params, const Values& proj, DeltaState& carried) {
  const size_t width = params.proj_width();
  LILY_CHECK(proj.size() % width == 0, "gated_delta_net: {} inputs are no rows of {}", proj.size(), width);
  const size_t rows = proj.size() / width;
  const Values conv = convolve(params, proj, carried.window);
  Values out(rows * params.value_dim());
  for (size_t head = 0; head < params.value_heads; ++head) {
    const DeltaHead inputs = head_inputs(params, proj, conv, head);
    const Values read = delta_recurrence(inputs, std::span(carried.state).subspan(head * kDim * kDim, kDim * kDim));
    for (size_t r = 0; r < rows; ++r) {
      const auto o = row_of(read, r, kDim);
      const double factor = 1.0 / std::sqrt(dot(o, o) / static_cast<double>(kDim) + params.eps);
      for (size_t d = 0; d < kDim; ++d) {
        const double z = proj[r * width + params.channels() + head * kDim + d];
        out[r * params.value_dim() + head * kDim + d] = params.norm[d] * o[d] * factor * silu(z);
      }
    }
  }
  return out;
}

}  // namespace lily::ref
