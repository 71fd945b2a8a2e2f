#include "tests/ops/attention_case.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "tests/ref/linear.h"

namespace lily::ops {
namespace {

StateSizes attention_sizes(const AttentionRig::Size& size) {
  StateSizes sizes = op_sizes();
  sizes.sequences = size.sequences;
  sizes.kv_blocks = size.blocks;
  sizes.blocks_a_sequence = size.blocks_a_sequence;
  return sizes;
}

PlanOptions attention_options(ActivationType type, const AttentionRig::Size& size) {
  PlanOptions options;
  options.mode = size.rows > 8 ? PlanMode::kPrefill : PlanMode::kDecode;
  options.max_rows = size.rows;
  options.max_context = size.blocks_a_sequence * kKvBlockTokens;
  options.activation = type;
  return options;
}

/// What a stored value may differ by: the error itself in f32, a neighbour where it lies on the edge in bf16.
double stored_error(double exact, double error, ActivationType type) {
  return type == ActivationType::kF32 ? error : edge_slack(exact, error, type);
}

/// Heads [rows, heads · head_dim] after norm and rotation, before they are stored; row r lies at position r. A pair
/// inherits the errors of its normed values and that of its angle: float frequencies may differ in the last place.
Expected turned_heads(const ref::AttentionParams& params, const Values& gain, const Values& heads, size_t width,
                      ActivationType type) {
  const size_t dim = params.head_dim;
  const uint32_t half = params.rotary_dim / 2;
  LILY_CHECK(dim > 0 && half > 0 && width > 0, "heads without a width");
  Expected out{ref::rms_norm(heads, gain, params.eps), Values(heads.size())};
  Values errors(heads.size());
  for (size_t i = 0; i < heads.size(); ++i) {
    errors[i] = stored_error(out.value[i], kFloatSlack * std::abs(out.value[i]), type);
    out.value[i] = ref::rounded(out.value[i], rounding_of(type));
  }
  for (size_t head = 0; head < heads.size() / dim; ++head) {
    const auto position = static_cast<uint32_t>(head * dim / width);
    ref::turn(params, position, ref::row_of(out.value, head, dim));
    for (size_t d = 0; d < dim; ++d) {
      const size_t i = head * dim + d;
      out.bound[i] = errors[i];
      if (d >= params.rotary_dim) continue;
      const size_t partner = d < half ? i + half : i - half;
      const auto pair = static_cast<uint32_t>(d % half);
      const auto angle = static_cast<double>(ref::rope_angle(params, position, pair));
      out.bound[i] += errors[partner];
      out.bound[i] += std::hypot(out.value[i], out.value[partner]) * (kFloatSlack + angle * 0x1p-22);
    }
  }
  return out;
}

/// As stored, with what a backend's stored value may differ by.
Expected stored_heads(Expected turned, ActivationType type) {
  for (size_t i = 0; i < turned.value.size(); ++i) {
    turned.bound[i] = stored_error(turned.value[i], turned.bound[i], type);
    turned.value[i] = ref::rounded(turned.value[i], rounding_of(type));
  }
  return turned;
}

/// Columns [first, first + count) of rows of `width`.
Values columns(const Values& rows, size_t width, size_t first, size_t count) {
  Values out;
  for (size_t row = 0; row < rows.size() / width; ++row) {
    const auto part = ref::row_of(rows, row, width).subspan(first, count);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

}  // namespace

AttentionStores::AttentionStores(const ModelShape& shape) {
  params.query_heads = shape.query_heads;
  params.kv_heads = shape.kv_heads;
  params.head_dim = shape.head_dim;
  params.rotary_dim = shape.rotary_dim;
  params.theta = shape.rope_theta;
  params.eps = static_cast<double>(shape.rms_eps);
  q_norm = std::make_unique<PlainStore>("q_norm", std::vector{shape.head_dim}, PlainTensor::Dtype::kBf16,
                                        random_gain(shape.head_dim, 101));
  k_norm = std::make_unique<PlainStore>("k_norm", std::vector{shape.head_dim}, PlainTensor::Dtype::kBf16,
                                        random_gain(shape.head_dim, 102));
  params.q_norm = ref::plain_values(q_norm->tensor());
  params.k_norm = ref::plain_values(k_norm->tensor());
}

Values attention_proj(const ref::AttentionParams& params, uint32_t rows, ActivationType type, uint32_t seed) {
  return random_activations(size_t{rows} * params.proj_width(), 1.0, type, seed);
}

AttentionReference::AttentionReference(const ref::AttentionParams& params, Values proj, ActivationType type)
    : params_(params), type_(type), proj_(std::move(proj)) {
  const size_t width = params.proj_width();
  const size_t dim = params.head_dim;
  Values queries;  // without the gates that lie between them
  for (size_t at = 0; at < proj_.size(); at += width) {
    for (size_t head = 0; head < params.query_heads; ++head) {
      const auto from = std::span(proj_).subspan(at + 2 * head * dim, dim);
      queries.insert(queries.end(), from.begin(), from.end());
    }
  }
  query_ = turned_heads(params, params.q_norm, queries, params.query_dim(), type);
  stored_query_ = stored_heads(query_, type);
  const size_t keys_at = size_t{2} * params.query_dim();
  stored_keys_ = stored_heads(
      turned_heads(params, params.k_norm, columns(proj_, width, keys_at, params.kv_dim()), params.kv_dim(), type),
      type);
  lists_ = {stored_keys_.value, columns(proj_, width, keys_at + params.kv_dim(), params.kv_dim())};
  store_rounded(query_, type);
}

Values AttentionReference::proj_rows(uint32_t first, uint32_t count) const {
  const size_t width = params_.proj_width();
  const auto begin = proj_.begin() + static_cast<std::ptrdiff_t>(first * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * width)};
}

// With scores off by e_t, the weights p_t move the output by at most Σ p_t · e_t · (|v_t| + |o|). e_t is twice the norm
// of its parts: they are independent roundings.
const Expected& AttentionReference::out(uint32_t position) const {
  if (const auto found = outs_.find(position); found != outs_.end()) return found->second;
  const size_t dim = params_.head_dim;
  const size_t kv_dim = params_.kv_dim();
  const auto queries = ref::row_of(stored_query_.value, position, params_.query_dim());
  const Values query(queries.begin(), queries.end());
  Expected expected{ref::attention(params_, query, proj_rows(position, 1), position, lists_), {}};
  for (size_t head = 0; head < params_.query_heads; ++head) {
    const size_t kv_at = head / (params_.query_heads / params_.kv_heads) * dim;
    Values weights;
    Values errors;
    for (size_t t = 0; t <= position; ++t) {
      double score = 0;
      double square = 0;
      for (size_t d = 0; d < dim; ++d) {
        const double q = query[head * dim + d];
        const double k = lists_.keys[t * kv_dim + kv_at + d];
        score += q * k;
        const double q_error = stored_query_.bound[size_t{position} * params_.query_dim() + head * dim + d];
        const double k_error = stored_keys_.bound[t * kv_dim + kv_at + d];
        square += k * k * q_error * q_error + q * q * k_error * k_error + q * q * k * k * 1e-12;
      }
      weights.push_back(score / 16);
      errors.push_back(2 * std::sqrt(square) / 16 + kFloatSlack);
    }
    const double top = *std::ranges::max_element(weights);
    double total = 0;
    for (double& weight : weights) total += weight = std::exp(weight - top);
    for (size_t d = 0; d < dim; ++d) {
      const double gate = ref::sigmoid(proj_[size_t{position} * params_.proj_width() + (2 * head + 1) * dim + d]);
      const double o = std::abs(expected.value[head * dim + d] / gate);
      double moved = 0;
      for (size_t t = 0; t <= position; ++t) {
        const double v = std::abs(lists_.values[t * kv_dim + kv_at + d]);
        moved += weights[t] / total * (errors[t] * (v + o) + kSumSlack * v);
      }
      expected.bound.push_back(gate * (moved + kFloatSlack * o));
    }
  }
  store_rounded(expected, type_);
  return outs_.emplace(position, std::move(expected)).first->second;
}

AttentionRig::AttentionRig(Backend& backend, const ModelShape& shape, const AttentionStores& stores,
                           ActivationType type, const Size& size)
    : type_(type),
      size_(size),
      width_(shape.query_dim()),
      proj_width_(stores.params.proj_width()),
      rig_(backend, shape, attention_sizes(size), attention_options(type, size)) {
  const uint64_t pool = uint64_t{size.blocks} * kKvBlockTokens * shape.kv_dim();
  const Ref proj = rig_.buffer("proj", ElementType::kActivation, size.rows * proj_width_);
  const Ref query = rig_.buffer("query", ElementType::kActivation, size.rows * width_);
  const Ref keys = rig_.buffer("keys", ElementType::kActivation, pool);
  const Ref values = rig_.buffer("values", ElementType::kActivation, pool);
  const Ref table = rig_.buffer("block_table", ElementType::kU32, uint64_t{size.sequences} * size.blocks_a_sequence);
  const Ref out = rig_.buffer("out", ElementType::kActivation, size.rows * width_);
  rig_.add(QkNormRopeAppend{.proj = proj,
                            .q_norm = rig_.plain(stores.q_norm->tensor()),
                            .k_norm = rig_.plain(stores.k_norm->tensor()),
                            .query = query,
                            .keys = keys,
                            .values = values,
                            .block_table = table});
  rig_.add(Attention{.query = query, .proj = proj, .keys = keys, .values = values, .block_table = table, .out = out});
  rig_.compile();
}

void AttentionRig::set_blocks(uint32_t sequence, const std::vector<uint32_t>& blocks) {
  rig_.write("block_table", Values(blocks.begin(), blocks.end()), uint64_t{sequence} * size_.blocks_a_sequence);
}

void AttentionRig::poison_pool() {
  rig_.poison("keys");
  rig_.poison("values");
}

AttentionBytes AttentionRig::run(const std::vector<Run>& runs, const Values& proj) {
  Step step;
  uint32_t rows = 0;
  for (Run run : runs) {
    run.first_row = rows;
    rows += run.rows;
    step.runs.push_back(std::move(run));
  }
  step.tokens.assign(rows, 0);
  for (const char* name : {"out", "query", "proj"}) rig_.poison(name);
  rig_.write("proj", proj);
  rig_.run(step);
  return {rig_.read("query", 0, rows * width_), rig_.read("out", 0, rows * width_)};
}

AttentionBytes AttentionRig::rows_of(const AttentionBytes& bytes, uint32_t first, uint32_t count) const {
  const auto cut = [&](const Bytes& all) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * row_bytes());
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(count * row_bytes()));
  };
  return {cut(bytes.query), cut(bytes.out)};
}

void AttentionRig::expect_rows(const AttentionBytes& bytes, const AttentionReference& reference,
                               uint32_t first_position, const std::string& what, const std::vector<uint32_t>& checked) {
  expect_close(OpRig::decode(bytes.query, ElementType::kActivation, type_), reference.query(), first_position, width_,
               what + ", query");
  const auto rows = static_cast<uint32_t>(bytes.out.size() / row_bytes());
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t position = first_position + row;
    if (!checked.empty() && std::ranges::find(checked, position) == checked.end()) continue;
    expect_close(OpRig::decode(rows_of(bytes, row, 1).out, ElementType::kActivation, type_), reference.out(position), 0,
                 width_, what + ", position " + std::to_string(position));
  }
}

void AttentionRig::expect_same(const AttentionBytes& got, const AttentionBytes& wanted, const std::string& what) const {
  expect_same_bytes(got.query, wanted.query, row_bytes(), what + ", query");
  expect_same_bytes(got.out, wanted.out, row_bytes(), what + ", out");
}

Run attention_run(uint32_t sequence, uint32_t first_position, uint32_t rows) {
  Run run;
  run.sequence = sequence;
  run.first_position = first_position;
  run.rows = rows;
  return run;
}

}  // namespace lily::ops
