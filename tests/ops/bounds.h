// How far an output may lie from the reference, and why.
//
// f32 sums: 1e-5 of the norm of the accumulated terms, codes and biases counted apart. That is some forty times what a
// sum in lanes over 2,048 columns loses, and a hundredth of what a wrong scale would change.
// bf16: the reference is fed the same rounded inputs; an output is rounded once, so half a unit in the last place comes
// on top. Where a rounded value feeds a product inside the op, values that lie on the edge between two neighbours may
// go either way: their distance enters as an input error (edge_slack).
// Integer dot products: a bf16 backend may hold the inputs of a linear as integers in steps of 2^-13 of the power of
// two at or below the largest of 64. That is exact for every bf16 of at least 2^-6 of that power; smaller ones lose
// half a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "tests/ops/op_rig.h"
#include "tests/ref/matrix.h"
#include "tests/ref/values.h"

namespace lily::ops {

/// Reference values with the largest error allowed for each.
struct Expected {
  Values value;
  Values bound;
};

/// One value may be off by this share of itself before it is stored: a few float operations.
constexpr double kFloatSlack = 4e-6;
/// Share of the norm of the accumulated terms.
constexpr double kSumSlack = 1e-5;

/// Distance between the two bf16 neighbours a value may round to when it is off by `share` of itself or `absolute`;
/// 0 where the rounding is safe or none.
double edge_slack(double value, double error, ActivationType type);

/// W · x with bounds, unrounded. x [rows, cols] holds what the reference multiplies, `slack` (same size or empty) how
/// far the backend's inputs may lie from it.
Expected bounded_linear(const ref::Matrix& weight, const Values& x, const Values& slack, ActivationType type);

/// The same for every (row, choice) pair with the matrix of its expert; pair p reads row p / choices_a_row of x. One
/// expert at a time, so each matrix is decoded once. Returns [pairs, rows of an expert].
Expected bounded_experts(const std::vector<const QuantTensor*>& parts, const Values& x,
                         const std::vector<uint32_t>& chosen, size_t choices_a_row, ActivationType type);

/// Adds the cost of storing the outputs as activations.
void store_rounded(Expected& expected, ActivationType type);

/// Compares [rows, width] outputs with rows first_row… of the expectation; fails the running test with the first
/// element out of bounds.
void expect_close(const Values& got, const Expected& expected, size_t first_row, size_t width, const std::string& what);

/// Fails the running test when bytes differ, naming the first row and column.
void expect_same_bytes(const Bytes& got, const Bytes& wanted, size_t row_bytes, const std::string& what);

}  // namespace lily::ops
