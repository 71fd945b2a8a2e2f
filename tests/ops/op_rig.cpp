#include "tests/ops/op_rig.h"

#include <cstring>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"

namespace lily::ops {
namespace {

size_t bytes_of(ElementType type, ActivationType activation) {
  return type == ElementType::kActivation ? activation_bytes(activation) : 4;
}

uint64_t stored_bytes(const QuantTensor& tensor) {
  const uint64_t elements = uint64_t{tensor.experts} * tensor.rows * tensor.cols;
  return elements * tensor.bits / 8 + elements / kQuantGroup * 4;
}

}  // namespace

OpRig::OpRig(Backend& backend, const ModelShape& shape, const StateSizes& sizes, const PlanOptions& options)
    : backend_(backend), activation_(options.activation), builder_("op", shape, sizes, options, table_) {}

OpRig::~OpRig() {
  program_.reset();
  for (const auto& [name, ref] : refs_) {
    if (ref.buffer < bindings_.states.size()) backend_.free(bindings_.states[ref.buffer]);
  }
}

Weight OpRig::stack(std::vector<const QuantTensor*> parts) {
  WeightView view;
  view.name = parts.front()->name;
  view.experts = parts.front()->experts;
  view.cols = parts.front()->cols;
  for (const QuantTensor* part : parts) {
    view.rows += part->rows;
    view.bytes += stored_bytes(*part);
  }
  view.parts = std::move(parts);
  table_.views.push_back(std::move(view));
  return {static_cast<uint32_t>(table_.views.size() - 1)};
}

Weight OpRig::plain(const PlainTensor& tensor) {
  WeightView view;
  view.name = tensor.name;
  view.plain = &tensor;
  view.rows = 1;
  for (const uint32_t extent : tensor.shape) view.rows *= extent;
  view.cols = 1;
  view.bytes = uint64_t{view.rows} * (tensor.dtype == PlainTensor::Dtype::kBf16 ? 2 : 4);
  table_.views.push_back(std::move(view));
  return {static_cast<uint32_t>(table_.views.size() - 1)};
}

Ref OpRig::buffer(const std::string& name, ElementType type, uint64_t count) {
  if (const auto found = refs_.find(name); found != refs_.end()) return found->second;
  const Ref ref = builder_.state(name, count * bytes_of(type, activation_));
  refs_[name] = ref;
  types_[name] = type;
  return ref;
}

void OpRig::compile() {
  const Plan& plan = builder_.plan();
  for (const WeightView& view : table_.views) bindings_.weights.push_back(backend_.adopt(view));
  for (const PlanBuffer& buffer : plan.buffers) {
    bindings_.states.push_back(backend_.allocate(buffer.bytes, buffer.name));
  }
  program_ = backend_.compile(plan, bindings_);
  for (const auto& [name, ref] : refs_) poison(name);
}

void OpRig::poison(const std::string& name) {
  write_bytes(name, Bytes(refs_.at(name).bytes, std::byte{0xff}));
}

void OpRig::write(const std::string& name, const Values& values, uint64_t first) {
  write_bytes(name, encode(values, types_.at(name), activation_), first * element_bytes(name));
}

void OpRig::write_bytes(const std::string& name, std::span<const std::byte> bytes, uint64_t offset) {
  const Ref ref = refs_.at(name);
  LILY_CHECK(offset + bytes.size() <= ref.bytes, "{} bytes at {} do not fit {}", bytes.size(), offset, name);
  backend_.write(bindings_.states[ref.buffer], offset, bytes);
}

Bytes OpRig::read_bytes(const std::string& name, uint64_t offset, uint64_t bytes) {
  Bytes out(bytes);
  backend_.read(bindings_.states[refs_.at(name).buffer], offset, out);
  return out;
}

Bytes OpRig::read(const std::string& name, uint64_t first, uint64_t count) {
  return read_bytes(name, first * element_bytes(name), count * element_bytes(name));
}

Values OpRig::read_values(const std::string& name, uint64_t first, uint64_t count) {
  return decode(read(name, first, count), types_.at(name), activation_);
}

uint64_t OpRig::element_bytes(const std::string& name) const {
  return bytes_of(types_.at(name), activation_);
}

void OpRig::run(const Step& step) {
  backend_.wait(program_->submit(step));
}

Bytes OpRig::encode(const Values& values, ElementType type, ActivationType activation) {
  const size_t width = bytes_of(type, activation);
  Bytes out(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::kU32) {
      const auto value = static_cast<uint32_t>(values[i]);
      std::memcpy(&out[i * width], &value, width);
    } else if (width == 2) {
      const uint16_t bits = to_bf16(static_cast<float>(values[i])).bits;
      std::memcpy(&out[i * width], &bits, width);
    } else {
      const auto value = static_cast<float>(values[i]);
      std::memcpy(&out[i * width], &value, width);
    }
  }
  return out;
}

Values OpRig::decode(const Bytes& bytes, ElementType type, ActivationType activation) {
  const size_t width = bytes_of(type, activation);
  Values out(bytes.size() / width);
  for (size_t i = 0; i < out.size(); ++i) {
    if (type == ElementType::kU32) {
      uint32_t value = 0;
      std::memcpy(&value, &bytes[i * width], width);
      out[i] = value;
    } else if (width == 2) {
      Bf16 value;
      std::memcpy(&value.bits, &bytes[i * width], width);
      out[i] = static_cast<double>(to_float(value));
    } else {
      float value = 0;
      std::memcpy(&value, &bytes[i * width], width);
      out[i] = static_cast<double>(value);
    }
  }
  return out;
}

StateSizes op_sizes() {
  StateSizes sizes;
  sizes.kv_blocks = 64;
  sizes.blocks_a_sequence = 64;
  sizes.max_logit_rows = 256;
  return sizes;
}

Step one_run(uint32_t rows, uint32_t first_position) {
  Step step;
  Run run;
  run.first_position = first_position;
  run.rows = rows;
  run.logit_rows = rows;
  step.runs.push_back(run);
  step.tokens.assign(rows, 0);
  return step;
}

}  // namespace lily::ops
