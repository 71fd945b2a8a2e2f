#include "tests/ops/row_op.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "tests/ops/backends.h"

namespace lily::ops {
namespace {

constexpr uint32_t kNoRow = UINT32_MAX;

/// Outputs of one submit, one entry an output.
using Outputs = std::vector<Bytes>;

class RowRig {
 public:
  RowRig(Backend& backend, const RowOp& op) : op_(op) {
    StateSizes sizes = op_sizes();
    sizes.state_slots = 2;
    sizes.max_logit_rows = op.rows;
    PlanOptions options;
    options.mode = op.mode;
    options.max_rows = op.rows;
    options.max_context = 4 * kKvBlockTokens;
    options.activation = op.activation;
    rig_ = std::make_unique<OpRig>(backend, op.shape, sizes, options);
    for (const RowInput& input : op.inputs) rig_->buffer(input.name, input.type, op.rows * input.width);
    for (const RowOutput& output : op.outputs) rig_->buffer(output.name, output.type, op.rows * output.width);
    op.build(*rig_);
    rig_->compile();
  }

  /// Rows [first, first + count) as a step of their own; row `broken` has NaN in every float input.
  Outputs run(uint32_t first, uint32_t count, uint32_t broken = kNoRow) {
    for (const RowOutput& output : op_.outputs) rig_->poison(output.name);
    for (const RowInput& input : op_.inputs) {
      const auto begin = input.values.begin() + static_cast<std::ptrdiff_t>(first * input.width);
      Values values(begin, begin + static_cast<std::ptrdiff_t>(count * input.width));
      if (broken != kNoRow && input.type != ElementType::kU32) {
        std::ranges::fill(ref::row_of(values, broken - first, input.width), std::numeric_limits<double>::quiet_NaN());
      }
      rig_->poison(input.name);
      rig_->write(input.name, values);
    }
    rig_->run(op_.step ? op_.step(first, count) : one_run(count));
    Outputs outputs;
    for (const RowOutput& output : op_.outputs) outputs.push_back(rig_->read(output.name, 0, count * output.width));
    return outputs;
  }

  size_t row_bytes(size_t output) const {
    return op_.outputs[output].width * rig_->element_bytes(op_.outputs[output].name);
  }

  void expect_reference(const Outputs& outputs, uint32_t first, const std::string& what) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const RowOutput& output = op_.outputs[i];
      expect_close(OpRig::decode(outputs[i], output.type, op_.activation), output.expected, first, output.width,
                   what + ", " + output.name);
    }
  }

  /// Rows [first, …) of `whole` against all rows of `outputs`, `skipped` left out.
  void expect_same(const Outputs& outputs, const Outputs& whole, uint32_t first, const std::string& what,
                   uint32_t skipped = kNoRow) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const size_t bytes = row_bytes(i);
      Bytes got = outputs[i];
      const auto begin = whole[i].begin() + static_cast<std::ptrdiff_t>(first * bytes);
      Bytes wanted(begin, begin + static_cast<std::ptrdiff_t>(got.size()));
      if (skipped != kNoRow) {
        std::fill_n(got.begin() + static_cast<std::ptrdiff_t>(skipped * bytes), bytes, std::byte{0});
        std::fill_n(wanted.begin() + static_cast<std::ptrdiff_t>(skipped * bytes), bytes, std::byte{0});
      }
      expect_same_bytes(got, wanted, bytes, what + ", " + op_.outputs[i].name);
    }
  }

 private:
  const RowOp& op_;
  std::unique_ptr<OpRig> rig_;
};

std::string rows_text(const std::string& label, uint32_t first, uint32_t count) {
  return label + ": rows " + std::to_string(first) + " to " + std::to_string(first + count - 1);
}

void check_on(const BackendCase& each, const RowOp& op, std::map<std::string, Outputs>& whole_of) {
  RowRig rig(*each.backend, op);
  const bool exact = !each.group.empty();
  const bool leads = !exact || !whole_of.contains(each.group);
  const Outputs whole = rig.run(0, op.rows);
  rig.expect_reference(whole, 0, rows_text(each.label, 0, op.rows));
  if (leads) {
    whole_of[each.group] = whole;
  } else {
    rig.expect_same(whole, whole_of.at(each.group), 0, each.label + " against one thread");
  }
  for (const uint32_t count : edge_row_counts(op.rows)) {
    if (!leads && count > 5) break;  // more threads: the smallest counts, where splits differ most
    const uint32_t first = (op.rows - count) / 2;
    const Outputs part = rig.run(first, count);
    if (leads) rig.expect_reference(part, first, rows_text(each.label, first, count));
    if (exact) rig.expect_same(part, whole, first, rows_text(each.label, first, count) + " alone");
  }
  if (!leads) return;
  for (uint32_t row = 0; exact && row < op.rows; ++row) {
    rig.expect_same(rig.run(row, 1), whole, row, rows_text(each.label, row, 1) + " alone");
  }
  for (const uint32_t count : {std::min(op.rows, 3U), op.rows}) {
    const uint32_t broken = count / 2;
    const Outputs others = rig.run(0, count, broken);
    if (exact) {
      rig.expect_same(others, whole, 0, each.label + " beside a NaN row", broken);
    } else {
      Outputs before = others;
      for (size_t i = 0; i < before.size(); ++i) before[i].resize(broken * rig.row_bytes(i));
      rig.expect_reference(before, 0, each.label + " beside a NaN row");
    }
  }
}

}  // namespace

std::vector<uint32_t> edge_row_counts(uint32_t rows) {
  std::vector<uint32_t> counts{1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 65, 130};
  std::erase_if(counts, [rows](uint32_t count) { return count > rows; });
  return counts;
}

void check_row_op(const RowOp& op) {
  std::map<std::string, Outputs> whole_of;
  for (const BackendCase& each : op_backends()) check_on(each, op, whole_of);
}

std::string activation_name(ActivationType type) {
  return type == ActivationType::kBf16 ? "bf16" : "f32";
}

}  // namespace lily::ops
