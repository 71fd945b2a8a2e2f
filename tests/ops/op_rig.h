// A plan of one or a few ops with all its buffers as state, so that a test can write inputs and read outputs, compiled
// by any backend. Outputs start as NaN (all bits set), so no unwritten byte passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "plan/plan.h"
#include "tests/ref/values.h"

namespace lily::ops {

using ref::Values;

/// What a buffer holds: activations of the plan's type, floats, or unsigned integers.
enum class ElementType : uint8_t { kActivation, kF32, kU32 };

using Bytes = std::vector<std::byte>;

class OpRig {
 public:
  OpRig(Backend& backend, const ModelShape& shape, const StateSizes& sizes, const PlanOptions& options);
  ~OpRig();
  OpRig(const OpRig&) = delete;
  OpRig& operator=(const OpRig&) = delete;

  /// Adds a stack to the weight table; the tensors must outlive the rig.
  Weight stack(std::vector<const QuantTensor*> parts);
  Weight plain(const PlainTensor& tensor);
  /// Declares a buffer of `count` elements, or returns the one of this name.
  Ref buffer(const std::string& name, ElementType type, uint64_t count);
  Ref buffer(const std::string& name) const { return refs_.at(name); }
  void add(const Op& op) { builder_.plan().add(op); }
  /// Adopts, allocates, compiles. Nothing may be added afterwards.
  void compile();

  /// Sets every bit: NaN as bf16 and f32, an impossible id as u32.
  void poison(const std::string& name);
  /// Converts values to the buffer's type and writes them from element `first`.
  void write(const std::string& name, const Values& values, uint64_t first = 0);
  void write_bytes(const std::string& name, std::span<const std::byte> bytes, uint64_t offset = 0);
  Bytes read_bytes(const std::string& name, uint64_t offset, uint64_t bytes);
  /// `count` elements from `first` on.
  Bytes read(const std::string& name, uint64_t first, uint64_t count);
  Values read_values(const std::string& name, uint64_t first, uint64_t count);
  uint64_t element_bytes(const std::string& name) const;
  ElementType type(const std::string& name) const { return types_.at(name); }
  ActivationType activation() const { return activation_; }

  void run(const Step& step);

  /// Values as the bytes of a buffer of this type.
  static Bytes encode(const Values& values, ElementType type, ActivationType activation);
  static Values decode(const Bytes& bytes, ElementType type, ActivationType activation);

 private:
  Backend& backend_;
  ActivationType activation_;
  WeightTable table_;
  PlanBuilder builder_;
  std::map<std::string, Ref> refs_;
  std::map<std::string, ElementType> types_;
  Bindings bindings_;
  std::unique_ptr<Program> program_;
};

/// Sizes with room for 4,096 positions a sequence; no block is allocated unless a test declares the pool.
StateSizes op_sizes();

/// A step of one run over `rows` rows of sequence 0, all of them with logits.
Step one_run(uint32_t rows, uint32_t first_position = 0);

}  // namespace lily::ops
