// The fixture of the op tests: a shape and an activation type. Suites are called after the op, so that
// `ops/expert_gate_up.…` names its tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "tests/ops/row_op.h"
#include "tests/ops/shapes.h"

namespace lily::ops {

enum class ShapeName : uint8_t { kMini, kDemo, kLarge };

struct OpParam {
  ShapeName name = ShapeName::kMini;
  ActivationType activation = ActivationType::kBf16;

  ModelShape shape() const {
    switch (name) {
      case ShapeName::kMini:
        return mini_shape();
      case ShapeName::kDemo:
        return demo_shape();
      default:
        return large_shape();
    }
  }
  /// `small` rows at the small shapes, `large` at the widths of the 35B model.
  uint32_t rows(uint32_t small, uint32_t large) const { return name == ShapeName::kLarge ? large : small; }
  std::string text() const {
    constexpr const char* kNames[] = {"mini", "demo", "large"};
    return std::string(kNames[static_cast<size_t>(name)]) + "_" + activation_name(activation);
  }
  friend std::ostream& operator<<(std::ostream& out, const OpParam& param) { return out << param.text(); }
};

class OpTest : public testing::TestWithParam<OpParam> {
 protected:
  static ModelShape shape() { return GetParam().shape(); }
  static ActivationType activation() { return GetParam().activation; }
  static ref::Rounding rounding() {
    return activation() == ActivationType::kBf16 ? ref::Rounding::kBf16 : ref::Rounding::kNone;
  }
  static double eps() { return static_cast<double>(shape().rms_eps); }
};

inline std::vector<OpParam> all_op_params() {
  std::vector<OpParam> params;
  for (const ShapeName name : {ShapeName::kMini, ShapeName::kDemo, ShapeName::kLarge}) {
    for (const ActivationType type : {ActivationType::kBf16, ActivationType::kF32}) params.push_back({name, type});
  }
  return params;
}

}  // namespace lily::ops

/// Runs the suite at every shape with both activation types.
#define LILY_OP_SUITE(suite)                                       \
  INSTANTIATE_TEST_SUITE_P(                                        \
      ops, suite, testing::ValuesIn(::lily::ops::all_op_params()), \
      [](const testing::TestParamInfo<::lily::ops::OpParam>& instance) { return instance.param.text(); })
