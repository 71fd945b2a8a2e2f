#include "tests/ops/gdn_case.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lily::ops {
namespace {

constexpr size_t kDim = ref::kDeltaHeadDim;
// A state and what is read from it pass through one float recurrence a row; errors decay with the state. Measured in
// float they stay near 1e-6 of the largest element.
constexpr double kRecurrenceSlack = 3e-5;

StateSizes delta_sizes(uint32_t slots) {
  StateSizes sizes = op_sizes();
  sizes.sequences = slots;
  sizes.state_slots = slots;
  return sizes;
}

PlanOptions delta_options(ActivationType type, uint32_t rows) {
  PlanOptions options;
  options.mode = rows > 8 ? PlanMode::kPrefill : PlanMode::kDecode;
  options.max_rows = rows;
  options.max_context = 4096;
  options.activation = type;
  return options;
}

double largest(std::span<const double> values) {
  double top = 0;
  for (const double value : values) top = std::max(top, std::abs(value));
  return top;
}

}  // namespace

DeltaStores::DeltaStores(const ModelShape& shape, PlainTensor::Dtype dtype) {
  params.key_heads = shape.key_heads;
  params.value_heads = shape.value_heads;
  params.eps = static_cast<double>(shape.rms_eps);
  const uint32_t heads = shape.value_heads;
  const uint32_t channels = shape.conv_channels();
  conv = std::make_unique<PlainStore>("conv1d", std::vector{channels, 4U}, PlainTensor::Dtype::kBf16,
                                      random_values(size_t{channels} * 4, 0.4, 81));
  Values logs = random_values(heads, 1.0, 82);
  Values biases = random_values(heads, 2.0, 83);
  for (double& value : biases) value -= 2.0;
  a_log = std::make_unique<PlainStore>("A_log", std::vector{heads}, dtype, logs);
  dt_bias = std::make_unique<PlainStore>("dt_bias", std::vector{heads}, PlainTensor::Dtype::kBf16, biases);
  norm = std::make_unique<PlainStore>("norm", std::vector{shape.value_head_dim}, dtype,
                                      random_gain(shape.value_head_dim, 84));
  params.conv = ref::plain_values(conv->tensor());
  params.a_log = ref::plain_values(a_log->tensor());
  params.dt_bias = ref::plain_values(dt_bias->tensor());
  params.norm = ref::plain_values(norm->tensor());
}

Values delta_proj(const ref::DeltaParams& params, uint32_t rows, ActivationType type, uint32_t seed) {
  return random_activations(size_t{rows} * params.proj_width(), 1.5, type, seed);
}

DeltaReference::DeltaReference(const ref::DeltaParams& params, Values proj, ActivationType type)
    : params_(params), proj_(std::move(proj)) {
  ref::DeltaState state(params);
  out_.value = ref::gated_delta_net(params, proj_, state);
  // y = gain · o / rms(o) · silu(z): an error in o is a share of the head's largest o, so it enters as a share of the
  // largest normed value, about 4, times gain · silu(z). With z near zero that leaves nothing; silu itself errs by a
  // share of itself.
  for (size_t i = 0; i < out_.value.size(); ++i) {
    const size_t row = i / params.value_dim();
    const size_t column = i % params.value_dim();
    const double z = proj_[row * params.proj_width() + params.channels() + column];
    out_.bound.push_back(kRecurrenceSlack * 4 * std::abs(params.norm[column % kDim] * ref::silu(z)) + 1e-9);
  }
  store_rounded(out_, type);
}

Values DeltaReference::proj_rows(uint32_t first, uint32_t count) const {
  const size_t width = params_.proj_width();
  const auto begin = proj_.begin() + static_cast<std::ptrdiff_t>(first * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * width)};
}

const Expected& DeltaReference::state_after(uint32_t rows) const {
  if (const auto found = states_.find(rows); found != states_.end()) return found->second;
  ref::DeltaState state(params_);
  (void)ref::gated_delta_net(params_, proj_rows(0, rows), state);
  Expected expected{state.state, Values(state.state.size())};
  for (size_t head = 0; head < params_.value_heads; ++head) {
    const auto part = std::span(state.state).subspan(head * kDim * kDim, kDim * kDim);
    std::fill_n(expected.bound.begin() + static_cast<std::ptrdiff_t>(head * kDim * kDim), kDim * kDim,
                kRecurrenceSlack * largest(part));
  }
  return states_.emplace(rows, std::move(expected)).first->second;
}

Values DeltaReference::window_after(uint32_t rows) const {
  const size_t channels = params_.channels();
  Values window(3 * channels);
  for (uint32_t back = 1; back <= std::min(rows, 3U); ++back) {
    const auto row = ref::row_of(proj_, rows - back, params_.proj_width()).first(channels);
    std::ranges::copy(row, window.begin() + static_cast<std::ptrdiff_t>((3 - back) * channels));
  }
  return window;
}

DeltaRig::DeltaRig(Backend& backend, const ModelShape& shape, const DeltaStores& stores, ActivationType type,
                   uint32_t rows, uint32_t slots)
    : type_(type),
      out_width_(shape.value_dim()),
      state_width_(uint64_t{shape.value_heads} * kDim * kDim),
      window_width_(uint64_t{3} * shape.conv_channels()),
      proj_width_(stores.params.proj_width()),
      rig_(backend, shape, delta_sizes(slots), delta_options(type, rows)) {
  const Ref proj = rig_.buffer("proj", ElementType::kActivation, rows * proj_width_);
  const Ref state = rig_.buffer("state", ElementType::kF32, slots * state_width_);
  const Ref window = rig_.buffer("window", ElementType::kActivation, slots * window_width_);
  const Ref out = rig_.buffer("out", ElementType::kActivation, rows * out_width_);
  rig_.add(GatedDeltaNet{.proj = proj,
                         .conv = rig_.plain(stores.conv->tensor()),
                         .a_log = rig_.plain(stores.a_log->tensor()),
                         .dt_bias = rig_.plain(stores.dt_bias->tensor()),
                         .norm = rig_.plain(stores.norm->tensor()),
                         .state = state,
                         .window = window,
                         .out = out});
  rig_.compile();
}

Bytes DeltaRig::run(const std::vector<Run>& runs, const Values& proj) {
  Step step;
  uint32_t rows = 0;
  for (Run run : runs) {
    run.first_row = rows;
    rows += run.rows;
    step.runs.push_back(std::move(run));
  }
  step.tokens.assign(rows, 0);
  rig_.poison("out");
  rig_.poison("proj");
  rig_.write("proj", proj);
  rig_.run(step);
  return rig_.read("out", 0, rows * out_width_);
}

void DeltaRig::expect_out(const Bytes& bytes, const DeltaReference& reference, uint32_t first_row,
                          const std::string& what) {
  expect_close(OpRig::decode(bytes, ElementType::kActivation, type_), reference.out(), first_row, out_width_,
               what + ", out");
}

void DeltaRig::expect_state(uint32_t slot, const DeltaReference& reference, uint32_t rows, const std::string& what) {
  const std::string after = what + ", after " + std::to_string(rows) + " rows";
  expect_close(OpRig::decode(state(slot), ElementType::kF32, type_), reference.state_after(rows), 0, kDim,
               after + ", state");
  expect_same_bytes(window(slot), OpRig::encode(reference.window_after(rows), ElementType::kActivation, type_),
                    window_width_ / 3 * rig_.element_bytes("window"), after + ", window");
}

Run delta_run(uint32_t slot, uint32_t first_position, uint32_t rows) {
  Run run;
  run.sequence = slot;
  run.state_in = slot;
  run.state_out = slot;
  run.first_position = first_position;
  run.rows = rows;
  return run;
}

}  // namespace lily::ops
