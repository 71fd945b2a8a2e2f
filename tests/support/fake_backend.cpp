#include "tests/support/fake_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace lily::test {
namespace {

constexpr uint32_t kPromptBit = 1U << 31U;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6U) + (hash >> 2U);
  return hash * 0xff51afd7ed558ccdULL;
}

/// What the fake keeps in a state slot of each linear layer.
struct FakeState {
  uint64_t hash = 0;
  uint64_t length = 0;
  bool operator==(const FakeState&) const = default;
};

template <typename T>
T load(const std::vector<std::byte>& buffer, uint64_t offset) {
  T value;
  LILY_CHECK(offset + sizeof(T) <= buffer.size(), "read at {} of {} bytes", offset, buffer.size());
  std::memcpy(&value, buffer.data() + offset, sizeof(T));
  return value;
}

template <typename T>
void store(std::vector<std::byte>& buffer, uint64_t offset, const T& value) {
  LILY_CHECK(offset + sizeof(T) <= buffer.size(), "write at {} of {} bytes", offset, buffer.size());
  std::memcpy(buffer.data() + offset, &value, sizeof(T));
}

}  // namespace

LogitScript count_up(uint32_t vocabulary) {
  return [vocabulary](std::span<const uint32_t> history, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), 0.0F);
    logits[(history.back() + 1) % vocabulary] = 8.0F;
  };
}

LogitScript recite(uint32_t prompt_tokens, std::vector<uint32_t> tokens) {
  return [prompt_tokens, tokens = std::move(tokens)](std::span<const uint32_t> history, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), 0.0F);
    const size_t index = history.size() - std::min<size_t>(prompt_tokens, history.size());
    logits[tokens[std::min(index, tokens.size() - 1)]] = 8.0F;
  };
}

ModelShape tiny_shape(uint32_t vocab, uint32_t max_positions) {
  ModelShape shape;
  shape.hidden = 64;
  shape.vocab = vocab;
  shape.max_positions = max_positions;
  shape.rms_eps = 1e-6F;
  shape.layer_kinds = {LayerKind::kLinear, LayerKind::kAttention, LayerKind::kLinear, LayerKind::kAttention};
  shape.query_heads = 2;
  shape.kv_heads = 1;
  shape.head_dim = 256;
  shape.rotary_dim = 64;
  shape.rope_theta = 1e7F;
  shape.key_heads = 1;
  shape.value_heads = 1;
  shape.key_head_dim = 128;
  shape.value_head_dim = 128;
  shape.conv_width = 4;
  shape.experts = 4;
  shape.experts_per_token = 2;
  shape.expert_intermediate = 64;
  shape.shared_intermediate = 64;
  return shape;
}

WeightTable tiny_weights(const ModelShape& shape) {
  WeightTable table;
  const auto view = [&table](std::string name, uint32_t rows, uint32_t cols) {
    table.views.push_back({.name = std::move(name),
                           .parts = {},
                           .plain = nullptr,
                           .experts = 1,
                           .rows = rows,
                           .cols = cols,
                           .bytes = uint64_t{rows} * cols});
    return Weight{static_cast<uint32_t>(table.views.size() - 1)};
  };
  table.embed = view("embed_tokens", shape.vocab, shape.hidden);
  for (const LayerKind kind : shape.layer_kinds) {
    LayerWeightIds ids;
    ids.input_norm = view("input_norm", shape.hidden, 1);
    ids.post_norm = view("post_norm", shape.hidden, 1);
    if (kind == LayerKind::kLinear) {
      ids.mixer_in = view("in_proj", shape.conv_channels() + shape.value_dim() + 2 * shape.value_heads, shape.hidden);
      ids.conv = view("conv", shape.conv_channels(), shape.conv_width);
      ids.a_log = view("a_log", shape.value_heads, 1);
      ids.dt_bias = view("dt_bias", shape.value_heads, 1);
      ids.gated_norm = view("gated_norm", shape.value_head_dim, 1);
      ids.mixer_out = view("out_proj", shape.hidden, shape.value_dim());
    } else {
      ids.mixer_in = view("qkv_proj", 2 * shape.query_dim() + 2 * shape.kv_dim(), shape.hidden);
      ids.q_norm = view("q_norm", shape.head_dim, 1);
      ids.k_norm = view("k_norm", shape.head_dim, 1);
      ids.mixer_out = view("o_proj", shape.hidden, shape.query_dim());
    }
    ids.router = view("router", shape.experts + 1, shape.hidden);
    ids.gate_up = view("gate_up", 2 * shape.expert_intermediate, shape.hidden);
    ids.shared_gate_up = view("shared_gate_up", 2 * shape.shared_intermediate, shape.hidden);
    ids.down = view("down", shape.hidden, shape.expert_intermediate);
    ids.shared_down = view("shared_down", shape.hidden, shape.shared_intermediate);
    table.layers.push_back(ids);
  }
  table.final_norm = view("final_norm", shape.hidden, 1);
  table.lm_head = view("lm_head", shape.vocab, shape.hidden);
  return table;
}

/// Runs forward and sample steps on the fake's buffers.
class FakeProgram : public Program {
 public:
  FakeProgram(FakeBackend& backend, const Plan& plan, Bindings bindings)
      : backend_(backend),
        name_(plan.name),
        options_(plan.options),
        sizes_(plan.sizes),
        shape_(plan.shape),
        buffers_(plan.buffers),
        bindings_(std::move(bindings)) {}

  Ticket submit(const Step& step) override {
    if (name_ == "sample") {
      return backend_.enqueue([this, step] { sample(step); }, true);
    }
    FakeBackend::Record& record = *backend_.record_;
    if (step.rows() > options_.max_rows) {
      violation(fmt::format("{} rows in a program for {}", step.rows(), options_.max_rows));
    }
    const uint64_t index = record.steps.size();
    record.steps.push_back({.mode = options_.mode, .bucket = options_.max_rows, .step = step});
    const Ticket ticket = backend_.enqueue([this, step] { forward(step); }, true);
    if (backend_.options_.fault_at == index) {
      backend_.fault_tickets_.push_back(ticket.number);
    }
    return ticket;
  }
  std::string describe() const override { return name_; }

 private:
  void violation(std::string text) { backend_.record_->violations.push_back(std::move(text)); }

  std::vector<std::byte>& buffer(std::string_view name) {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (buffers_[i].name == name) {
        return backend_.buffers_.at(bindings_.states[i].index);
      }
    }
    LILY_CHECK(false, "plan {} has no buffer {}", name_, name);
  }

  uint64_t kv_offset(uint32_t layer, uint32_t sequence, uint32_t position) {
    const uint64_t block_bytes = buffer("keys").size() / shape_.attention_layers() / sizes_.kv_blocks;
    const uint64_t entry = (uint64_t{sequence} * sizes_.blocks_a_sequence) + (position / kKvBlockTokens);
    const auto block = load<uint32_t>(buffer("block_table"), entry * sizeof(uint32_t));
    return (((uint64_t{layer} * sizes_.kv_blocks) + block) * block_bytes) +
           ((position % kKvBlockTokens) * sizeof(uint32_t));
  }

  uint64_t state_offset(uint32_t layer, uint32_t slot) {
    return ((uint64_t{layer} * sizes_.state_slots) + slot) *
           (buffer("recurrent_state").size() / shape_.linear_layers() / sizes_.state_slots);
  }

  FakeState read_state(const Run& run) {
    if (run.first_position == 0) {
      return {};
    }
    const auto state = load<FakeState>(buffer("recurrent_state"), state_offset(0, run.state_in));
    const auto other = load<FakeState>(buffer("recurrent_state"), state_offset(1, run.state_in));
    if (state != other || state.length != run.first_position) {
      violation(fmt::format("sequence {}: state slot {} holds {} and {} tokens, the run starts at {}", run.sequence,
                            run.state_in, state.length, other.length, run.first_position));
    }
    return state;
  }

  std::vector<uint32_t> history(const Run& run, uint32_t length) {
    std::vector<uint32_t> tokens;
    for (uint32_t position = 0; position < length; ++position) {
      const auto token = load<uint32_t>(buffer("keys"), kv_offset(0, run.sequence, position));
      for (uint32_t layer = 0; layer < shape_.attention_layers(); ++layer) {
        const uint64_t offset = kv_offset(layer, run.sequence, position);
        if (load<uint32_t>(buffer("keys"), offset) != token || load<uint32_t>(buffer("values"), offset) != token) {
          violation(fmt::format("sequence {}: layers disagree about position {}", run.sequence, position));
        }
      }
      tokens.push_back(token);
    }
    return tokens;
  }

  void forward(const Step& step) {
    uint32_t logit_row = 0;
    uint32_t rows = 0;
    for (const Run& run : step.runs) {
      if (run.first_row != rows || run.rows == 0 || run.logit_rows > run.rows) {
        violation(fmt::format("run of sequence {} starts at row {}, expected {}", run.sequence, run.first_row, rows));
      }
      rows += run.rows;
      forward_run(step, run, logit_row);
    }
    if (rows != step.rows() || logit_row > sizes_.max_logit_rows) {
      violation(fmt::format("runs of {} rows for {} tokens, {} logit rows", rows, step.rows(), logit_row));
    }
  }

  void forward_run(const Step& step, const Run& run, uint32_t& logit_row) {
    FakeState state = read_state(run);
    for (uint32_t i = 0; i < run.rows; ++i) {
      const uint32_t position = run.first_position + i;
      if (position >= options_.max_context) {
        violation(fmt::format("position {} in a context of {}", position, options_.max_context));
        return;
      }
      int32_t token = step.tokens.at(run.first_row + i);
      if (token < 0) {
        token = load<int32_t>(buffer("mailbox"), static_cast<uint64_t>(-1 - token) * sizeof(int32_t));
      }
      for (uint32_t layer = 0; layer < shape_.attention_layers(); ++layer) {
        const uint64_t offset = kv_offset(layer, run.sequence, position);
        store(buffer("keys"), offset, token);
        store(buffer("values"), offset, token);
      }
      state.hash = mix(state.hash, static_cast<uint64_t>(token));
      ++state.length;
    }
    for (uint32_t layer = 0; layer < shape_.linear_layers(); ++layer) {
      store(buffer("recurrent_state"), state_offset(layer, run.state_out), state);
    }
    const uint32_t end = run.first_position + run.rows;
    const std::vector<uint32_t> all = history(run, end);
    uint64_t hash = 0;
    for (const uint32_t token : all) {
      hash = mix(hash, token);
    }
    if (hash != state.hash) {
      violation(
          fmt::format("sequence {}: KV blocks and state hold different histories of {} tokens", run.sequence, end));
    }
    std::vector<float> logits(shape_.vocab);
    for (uint32_t i = run.rows - run.logit_rows; i < run.rows; ++i) {
      backend_.options_.logits(std::span(all).first(run.first_position + i + 1), logits);
      const uint64_t offset = uint64_t{logit_row} * shape_.vocab * sizeof(float);
      std::memcpy(buffer("logits").data() + offset, logits.data(), logits.size() * sizeof(float));
      ++logit_row;
    }
  }

  void sample(const Step& step) {
    for (const SampleParams& params : step.samples) {
      std::vector<float> logits(shape_.vocab);
      std::memcpy(logits.data(), buffer("logits").data() + (uint64_t{params.logit_row} * shape_.vocab * sizeof(float)),
                  logits.size() * sizeof(float));
      const SampleResult result = draw(params, logits);
      const uint64_t row = (uint64_t{step.ring} * sizes_.max_logit_rows) + params.logit_row;
      store(buffer("samples"), row * sizeof(SampleResult), result);
      store(buffer("mailbox"), uint64_t{params.sequence} * sizeof(int32_t), std::max(result.token, 0));
    }
  }

  SampleResult draw(const SampleParams& params, std::vector<float> logits) {
    SampleResult result;
    if (std::any_of(logits.begin(), logits.end(), [](float value) { return !std::isfinite(value); })) {
      result.non_finite = 1;
      return result;
    }
    const std::vector<float> raw = logits;
    for (const auto& [id, bias] : params.bias) {
      logits.at(id) += bias;
    }
    for (const uint32_t id : params.banned) {
      logits.at(id) = -std::numeric_limits<float>::infinity();
    }
    logits.resize(params.vocabulary);
    if (params.counts_tokens()) {
      penalise(params, logits);
    }
    const auto best = std::max_element(logits.begin(), logits.end());
    if (!std::isfinite(*best)) {
      return result;
    }
    result.token = static_cast<int32_t>(best - logits.begin());
    if (params.temperature > 0) {
      // Not a real draw, but as pure a function of (seed, choice, position).
      const uint64_t random = mix(mix(mix(1, params.seed), params.choice), params.position);
      result.token = static_cast<int32_t>(random % params.vocabulary);
    }
    if (params.counts_tokens()) {
      const uint64_t offset = count_offset(params.sequence, static_cast<uint32_t>(result.token));
      store(buffer("token_counts"), offset, load<uint32_t>(buffer("token_counts"), offset) + 1);
    }
    if (params.want_logprob) {
      report(params, raw, result);
    }
    return result;
  }

  uint64_t count_offset(uint32_t sequence, uint32_t token) const {
    return ((uint64_t{sequence} * shape_.vocab) + token) * sizeof(uint32_t);
  }

  void penalise(const SampleParams& params, std::vector<float>& logits) {
    for (uint32_t id = 0; id < logits.size(); ++id) {
      const auto count = load<uint32_t>(buffer("token_counts"), count_offset(params.sequence, id));
      const uint32_t generated = count & ~kPromptBit;
      float& logit = logits[id];
      if (count != 0) {
        logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
      }
      if (generated > 0) {
        logit -= params.presence_penalty + (params.frequency_penalty * static_cast<float>(generated));
      }
    }
  }

  void report(const SampleParams& params, const std::vector<float>& raw, SampleResult& result) {
    const float largest = *std::max_element(raw.begin(), raw.end());
    double sum = 0;
    for (const float value : raw) {
      sum += std::exp(static_cast<double>(value - largest));
    }
    const auto logprob = [&](uint32_t id) { return raw[id] - largest - static_cast<float>(std::log(sum)); };
    result.logprob = logprob(static_cast<uint32_t>(result.token));
    std::vector<uint32_t> order(raw.size());
    for (uint32_t id = 0; id < order.size(); ++id) {
      order[id] = id;
    }
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return raw[a] > raw[b]; });
    result.top_count = params.top_logprobs;
    for (uint32_t i = 0; i < params.top_logprobs; ++i) {
      result.top_ids[i] = order[i];
      result.top_logprobs[i] = logprob(order[i]);
    }
  }

  FakeBackend& backend_;
  std::string name_;
  PlanOptions options_;
  StateSizes sizes_;
  ModelShape shape_;
  std::vector<PlanBuffer> buffers_;
  Bindings bindings_;
};

FakeBackend::FakeBackend(Options options) : options_(std::move(options)) {}

FakeBackend::~FakeBackend() = default;

BackendMemory FakeBackend::memory() const {
  BackendMemory memory;
  memory.weights_bytes = weights_bytes_;
  for (const auto& buffer : buffers_) {
    memory.buffers_bytes += buffer.size();
  }
  return memory;
}

WeightHandle FakeBackend::adopt(const WeightView& view) {
  weights_bytes_ += view.bytes;
  return {static_cast<uint32_t>(record_->adopted++)};
}

BufferHandle FakeBackend::allocate(uint64_t bytes, std::string_view /*buffer_name*/) {
  buffers_.emplace_back(bytes);
  return {static_cast<uint32_t>(buffers_.size() - 1)};
}

void FakeBackend::free(BufferHandle buffer) {
  buffers_.at(buffer.index).clear();
}

void FakeBackend::write(BufferHandle buffer, uint64_t offset, std::span<const std::byte> bytes) {
  LILY_CHECK(offset + bytes.size() <= buffers_.at(buffer.index).size(), "write past the end of a buffer");
  enqueue(
      [this, buffer, offset, data = std::vector<std::byte>(bytes.begin(), bytes.end())] {
        std::copy(data.begin(), data.end(), buffers_[buffer.index].begin() + static_cast<std::ptrdiff_t>(offset));
      },
      false);
}

void FakeBackend::read(BufferHandle buffer, uint64_t offset, std::span<std::byte> bytes) {
  drain(UINT64_MAX);
  const std::vector<std::byte>& from = buffers_.at(buffer.index);
  LILY_CHECK(offset + bytes.size() <= from.size(), "read past the end of a buffer");
  std::memcpy(bytes.data(), from.data() + offset, bytes.size());
}

void FakeBackend::copy(BufferHandle to, uint64_t to_offset, BufferHandle from, uint64_t from_offset, uint64_t bytes) {
  LILY_CHECK(to_offset + bytes <= buffers_.at(to.index).size() && from_offset + bytes <= buffers_.at(from.index).size(),
             "copy past the end of a buffer");
  ++record_->copies;
  enqueue(
      [this, to, to_offset, from, from_offset, bytes] {
        std::memcpy(buffers_[to.index].data() + to_offset, buffers_[from.index].data() + from_offset, bytes);
      },
      false);
}

std::unique_ptr<Program> FakeBackend::compile(const Plan& plan, const Bindings& bindings) {
  LILY_CHECK(bindings.weights.size() == plan.weight_table->views.size(), "{} weights bound for {} views",
             bindings.weights.size(), plan.weight_table->views.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    if (plan.buffers[i].kind == BufferKind::kState) {
      LILY_CHECK(buffers_.at(bindings.states.at(i).index).size() == plan.buffers[i].bytes,
                 "buffer {} has the wrong size", plan.buffers[i].name);
    }
  }
  return std::make_unique<FakeProgram>(*this, plan, bindings);
}

void FakeBackend::wait(Ticket ticket) {
  drain(ticket.number);
  const auto fault = std::find_if(fault_tickets_.begin(), fault_tickets_.end(),
                                  [&](uint64_t number) { return number <= ticket.number; });
  if (fault != fault_tickets_.end()) {
    fault_tickets_.erase(fault);
    throw Error(ErrorCode::kRuntime, "the fake device has failed");
  }
}

Ticket FakeBackend::enqueue(std::function<void()> work, bool is_submit) {
  const uint64_t ticket = is_submit ? next_ticket_++ : 0;
  queue_.push_back({.run = std::move(work), .ticket = ticket});
  if (options_.depth == 1) {
    drain(UINT64_MAX);
  }
  const auto submits = std::count_if(queue_.begin(), queue_.end(), [](const Work& each) { return each.ticket != 0; });
  record_->most_in_flight = std::max(record_->most_in_flight, static_cast<uint64_t>(submits));
  return {ticket};
}

void FakeBackend::drain(uint64_t up_to_ticket) {
  while (!queue_.empty() && queue_.front().ticket <= up_to_ticket) {
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    work.run();
  }
}

}  // namespace lily::test
