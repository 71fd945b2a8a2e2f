#include "engine/model_runner.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bf16.h"
#include "base/error.h"

namespace lily {
namespace {

constexpr uint32_t kSmallestPrefill = 64;  // rows; below that the same program serves
constexpr uint32_t kPromptBit = 1U << 31U;

template <typename T>
std::span<std::byte> writable(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

float activation(const std::byte* data, ActivationType type) {
  if (type == ActivationType::kF32) {
    float value = 0;
    std::memcpy(&value, data, sizeof(value));
    return value;
  }
  Bf16 value;
  std::memcpy(&value, data, sizeof(value));
  return to_float(value);
}

}  // namespace

ModelRunner::ModelRunner(std::unique_ptr<Backend> backend, ModelShape shape, WeightTable table,
                         const RunnerOptions& options, const OnAdopted& on_adopted)
    : backend_(std::move(backend)), shape_(std::move(shape)), table_(std::move(table)), options_(options) {
  LILY_CHECK(options.max_chunk >= kSmallestPrefill && options.max_chunk % kKvBlockTokens == 0,
             "max_chunk is {}, expected a multiple of {}", options.max_chunk, kKvBlockTokens);
  uint64_t total = 0;
  for (const WeightView& view : table_.views) {
    total += view.bytes;
  }
  uint64_t done = 0;
  for (const WeightView& view : table_.views) {
    weights_.push_back(backend_->adopt(view));
    done += view.bytes;
    if (on_adopted) {
      on_adopted(view, done, total);
    }
  }
  // Both programs of a one-row step, so that all state buffers exist and their memory is known after loading.
  forward_program(PlanMode::kDecode, 1);
  sample_ = compile(sample_plan(shape_, options_.sizes,
                                {.mode = PlanMode::kDecode,
                                 .max_rows = options_.sizes.max_logit_rows,
                                 .max_context = options_.sizes.blocks_a_sequence * kKvBlockTokens,
                                 .activation = options_.activation},
                                table_));
}

ModelRunner::~ModelRunner() = default;

Ticket ModelRunner::forward(PlanMode mode, const Step& step) {
  return forward_program(mode, step.rows()).program->submit(step);
}

Ticket ModelRunner::sample(const Step& step) {
  return sample_.program->submit(step);
}

std::vector<SampleResult> ModelRunner::samples(uint32_t ring, uint32_t count) {
  std::vector<SampleResult> results(count);
  const uint64_t first = uint64_t{ring} * options_.sizes.max_logit_rows;
  backend_->read(named("samples"), first * sizeof(SampleResult), writable(results));
  return results;
}

void ModelRunner::logits(uint32_t first, uint32_t rows, std::vector<float>& out) {
  out.resize(size_t{rows} * shape_.vocab);
  backend_->read(named("logits"), uint64_t{first} * shape_.vocab * sizeof(float), writable(out));
}

std::vector<float> ModelRunner::hidden(PlanMode mode, uint32_t rows) {
  LILY_CHECK(options_.capture_hidden, "hidden states were not captured");
  const Compiled& compiled = forward_program(mode, rows);
  const size_t row_values = shape_.hidden;
  const size_t values = size_t{rows} * row_values;
  const uint64_t act = activation_bytes(options_.activation);
  std::vector<float> out;
  std::vector<std::byte> raw(values * act);
  for (uint32_t index = 0; index <= shape_.layers(); ++index) {
    backend_->read(compiled.hidden, uint64_t{index} * compiled.max_rows * row_values * act, raw);
    for (size_t i = 0; i < values; ++i) {
      out.push_back(activation(raw.data() + (i * act), options_.activation));
    }
  }
  return out;
}

void ModelRunner::write_block_table(uint32_t sequence, uint32_t first, std::span<const uint32_t> blocks) {
  LILY_CHECK(sequence < sizes().sequences && first + blocks.size() <= sizes().blocks_a_sequence,
             "block table entries {} .. {} of sequence {}", first, first + blocks.size(), sequence);
  const uint64_t entry = (uint64_t{sequence} * sizes().blocks_a_sequence) + first;
  backend_->write(named("block_table"), entry * sizeof(uint32_t), std::as_bytes(blocks));
}

void ModelRunner::write_token_counts(uint32_t sequence, std::span<const uint32_t> prompt) {
  std::vector<uint32_t> counts(shape_.vocab, 0);
  for (const uint32_t id : prompt) {
    counts.at(id) = kPromptBit;
  }
  backend_->write(named("token_counts"), uint64_t{sequence} * shape_.vocab * sizeof(uint32_t),
                  std::as_bytes(std::span(counts)));
}

void ModelRunner::copy_block(BlockCopy copy) {
  const uint64_t block_bytes =
      uint64_t{kKvBlockTokens} * shape_.kv_dim() * activation_bytes(options_.activation);  // of one layer
  for (const char* buffer : {"keys", "values"}) {
    const BufferHandle handle = named(buffer);
    for (uint32_t layer = 0; layer < shape_.attention_layers(); ++layer) {
      const uint64_t base = uint64_t{layer} * sizes().kv_blocks;
      backend_->copy(handle, (base + copy.to) * block_bytes, handle, (base + copy.from) * block_bytes, block_bytes);
    }
  }
}

void ModelRunner::copy_state(uint32_t from, uint32_t to) {
  const uint32_t layers = shape_.linear_layers();
  if (layers == 0) {
    return;
  }
  const std::pair<const char*, uint64_t> buffers[] = {
      {"recurrent_state", shape_.recurrent_state_bytes() / layers},
      {"conv_window", shape_.conv_window_bytes(activation_bytes(options_.activation)) / layers}};
  for (const auto& [buffer, slot_bytes] : buffers) {
    const BufferHandle handle = named(buffer);
    for (uint32_t layer = 0; layer < layers; ++layer) {
      const uint64_t base = uint64_t{layer} * sizes().state_slots;
      backend_->copy(handle, (base + to) * slot_bytes, handle, (base + from) * slot_bytes, slot_bytes);
    }
  }
}

ModelRunner::Compiled& ModelRunner::forward_program(PlanMode mode, uint32_t rows) {
  LILY_CHECK(rows > 0, "a step without rows");
  uint32_t bucket = std::bit_ceil(rows);
  if (mode == PlanMode::kPrefill) {
    LILY_CHECK(rows <= options_.max_chunk, "a chunk of {} rows, at most {} fit", rows, options_.max_chunk);
    bucket = std::min(std::max(bucket, kSmallestPrefill), options_.max_chunk);
  }
  Compiled& compiled = forward_[{mode, bucket}];
  if (!compiled.program) {
    const PlanOptions plan_options = {.mode = mode,
                                      .max_rows = bucket,
                                      .max_context = options_.sizes.blocks_a_sequence * kKvBlockTokens,
                                      .activation = options_.activation,
                                      .capture_hidden = options_.capture_hidden};
    compiled = compile(mode == PlanMode::kDecode ? decode_plan(shape_, options_.sizes, plan_options, table_)
                                                 : prefill_plan(shape_, options_.sizes, plan_options, table_));
  }
  return compiled;
}

ModelRunner::Compiled ModelRunner::compile(const Plan& plan) {
  Compiled compiled;
  compiled.max_rows = plan.options.max_rows;
  Bindings bindings;
  bindings.weights = weights_;
  bindings.states.resize(plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer& buffer = plan.buffers[i];
    if (buffer.kind == BufferKind::kState) {
      bindings.states[i] = state_buffer(buffer);
      if (buffer.name == "hidden") {
        compiled.hidden = bindings.states[i];
      }
    }
  }
  compiled.program = backend_->compile(plan, bindings);
  return compiled;
}

BufferHandle ModelRunner::state_buffer(const PlanBuffer& buffer) {
  const auto [found, added] = buffers_.try_emplace(buffer.name);
  Allocation& allocation = found->second;
  if (added) {
    allocation = {.handle = backend_->allocate(buffer.bytes, buffer.name), .bytes = buffer.bytes};
  } else if (buffer.name == "hidden" && buffer.bytes != allocation.bytes) {
    // Its size follows the row bucket, and its content does not outlive a step: each size is a buffer of its own.
    return state_buffer({.name = fmt::format("hidden {}", buffer.bytes), .kind = buffer.kind, .bytes = buffer.bytes});
  }
  LILY_CHECK(allocation.bytes == buffer.bytes, "state buffer {} has {} bytes, a plan wants {}", buffer.name,
             allocation.bytes, buffer.bytes);
  return allocation.handle;
}

BufferHandle ModelRunner::named(const char* name) const {
  const auto found = buffers_.find(name);
  LILY_CHECK(found != buffers_.end(), "no state buffer called {}", name);
  return found->second.handle;
}

}  // namespace lily
