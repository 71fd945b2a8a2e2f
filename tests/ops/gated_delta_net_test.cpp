// gated_delta_net: runs from the start and later, in place and from slot to slot, cut, mixed, with snapshots, beside
// broken neighbours.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "tests/ops/backends.h"
#include "tests/ops/gdn_case.h"
#include "tests/ops/op_test.h"

namespace lily::ops {
namespace {

using gated_delta_net = OpTest;

Bytes rows_of(const Bytes& bytes, size_t row_bytes, size_t first, size_t count) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(first * row_bytes);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * row_bytes)};
}

void append(Values& to, const Values& values) {
  to.insert(to.end(), values.begin(), values.end());
}

TEST_P(gated_delta_net, MatchesTheReferenceAtEveryRowCount) {
  const uint32_t rows = GetParam().rows(130, 9);
  const DeltaStores stores(shape(), PlainTensor::Dtype::kBf16);
  const DeltaReference reference(stores.params, delta_proj(stores.params, rows, activation(), 91), activation());
  for (const BackendCase& each : op_backends()) {
    DeltaRig rig(*each.backend, shape(), stores, activation(), rows, 2);
    for (const uint32_t count : edge_row_counts(rows)) {
      if (each.threads > 1 && count != 3 && count != rows) continue;
      const std::string what = each.label + ", " + std::to_string(count) + " rows";
      // Slot 0 holds NaN or an older sequence: position 0 reads it as zeros.
      const Bytes out = rig.run({delta_run(0, 0, count)}, reference.proj_rows(0, count));
      rig.expect_out(out, reference, 0, what);
      rig.expect_state(0, reference, count, what);
    }
  }
}

TEST_P(gated_delta_net, AnyCutGivesTheSameBytes) {
  const uint32_t rows = GetParam().rows(130, 9);
  const DeltaStores stores(shape(), PlainTensor::Dtype::kF32);
  const DeltaReference reference(stores.params, delta_proj(stores.params, rows, activation(), 92), activation());
  std::map<std::string, Bytes> outs;
  std::map<std::string, Bytes> states;
  for (const BackendCase& each : op_backends()) {
    DeltaRig rig(*each.backend, shape(), stores, activation(), rows, 2);
    const Bytes whole = rig.run({delta_run(0, 0, rows)}, reference.proj());
    const Bytes state = rig.state(0);
    const Bytes window = rig.window(0);
    rig.expect_out(whole, reference, 0, each.label);
    if (each.group.empty()) continue;
    expect_same_bytes(whole, outs.try_emplace(each.group, whole).first->second, rig.out_row_bytes(),
                      each.label + " against one thread");
    expect_same_bytes(state, states.try_emplace(each.group, state).first->second, 512,
                      each.label + " against one thread, state");
    for (const uint32_t piece : {1U, 2U, 3U, 5U, 64U, 65U}) {
      if (piece >= rows || (each.threads > 2 && piece != 3)) continue;
      const std::string what = each.label + ", pieces of " + std::to_string(piece);
      Bytes out;
      for (uint32_t first = 0; first < rows; first += piece) {
        const uint32_t count = std::min(piece, rows - first);
        const Bytes part = rig.run({delta_run(1, first, count)}, reference.proj_rows(first, count));
        out.insert(out.end(), part.begin(), part.end());
      }
      expect_same_bytes(out, whole, rig.out_row_bytes(), what);
      expect_same_bytes(rig.state(1), state, 512, what + ", state");
      expect_same_bytes(rig.window(1), window, window.size() / 3, what + ", window");
    }
  }
}

TEST_P(gated_delta_net, RunsOfOneStepDoNotTouchEachOther) {
  const DeltaStores stores(shape(), PlainTensor::Dtype::kBf16);
  // (rows done before, rows in the mixed step) of four sequences
  const std::vector<std::pair<uint32_t, uint32_t>> lengths{{0, 5}, {3, 1}, {2, 2}, {0, 1}, {7, 1}};
  std::vector<DeltaReference> references;
  references.reserve(lengths.size());
  for (uint32_t i = 0; i < lengths.size(); ++i) {
    references.emplace_back(stores.params, delta_proj(stores.params, 8, activation(), 93 + i), activation());
  }
  for (const BackendCase& each : op_backends()) {
    DeltaRig rig(*each.backend, shape(), stores, activation(), 10, static_cast<uint32_t>(lengths.size()) + 1);
    std::vector<lily::Run> runs;
    Values proj;
    for (uint32_t i = 0; i < lengths.size(); ++i) {
      const auto [before, rows] = lengths[i];
      if (before > 0) (void)rig.run({delta_run(i, 0, before)}, references[i].proj_rows(0, before));
      runs.push_back(delta_run(i, before, rows));
      append(proj, references[i].proj_rows(before, rows));
    }
    const Bytes mixed = rig.run(runs, proj);
    const auto spare = static_cast<uint32_t>(lengths.size());
    uint32_t row = 0;
    for (uint32_t i = 0; i < lengths.size(); ++i) {
      const auto [before, rows] = lengths[i];
      const std::string what = each.label + ", run " + std::to_string(i);
      const Bytes part = rows_of(mixed, rig.out_row_bytes(), row, rows);
      rig.expect_out(part, references[i], before, what);
      rig.expect_state(i, references[i], before + rows, what);
      row += rows;
      if (each.group.empty()) continue;
      const Bytes alone = rig.run({delta_run(spare, 0, before + rows)}, references[i].proj_rows(0, before + rows));
      expect_same_bytes(part, rows_of(alone, rig.out_row_bytes(), before, rows), rig.out_row_bytes(), what);
      expect_same_bytes(rig.state(i), rig.state(spare), 512, what + ", state");
    }
  }
}

TEST_P(gated_delta_net, WritesTheOutSlotAndLeavesTheInSlot) {
  const DeltaStores stores(shape(), PlainTensor::Dtype::kBf16);
  const DeltaReference reference(stores.params, delta_proj(stores.params, 9, activation(), 94), activation());
  for (const BackendCase& each : op_backends()) {
    for (const uint32_t rows : {1U, 2U, 5U}) {
      DeltaRig rig(*each.backend, shape(), stores, activation(), 9, 3);
      (void)rig.run({delta_run(0, 0, 4)}, reference.proj_rows(0, 4));
      const Bytes state = rig.state(0);
      const Bytes window = rig.window(0);
      lily::Run fork = delta_run(0, 4, rows);
      fork.state_out = 2;
      const std::string what = each.label + ", fork of " + std::to_string(rows) + " rows";
      rig.expect_out(rig.run({fork}, reference.proj_rows(4, rows)), reference, 4, what);
      EXPECT_EQ(rig.state(0), state) << what;
      EXPECT_EQ(rig.window(0), window) << what;
      rig.expect_state(2, reference, 4 + rows, what);
      EXPECT_EQ(rig.state(1), Bytes(state.size(), std::byte{0xff})) << what;
    }
  }
}

TEST_P(gated_delta_net, KeepsSnapshotsOfInteriorRows) {
  const uint32_t rows = GetParam().rows(130, 9);
  const DeltaStores stores(shape(), PlainTensor::Dtype::kBf16);
  const DeltaReference reference(stores.params, delta_proj(stores.params, rows + 2, activation(), 95), activation());
  for (const BackendCase& each : op_backends()) {
    if (each.threads == 2) continue;
    DeltaRig rig(*each.backend, shape(), stores, activation(), rows + 2, 7);
    (void)rig.run({delta_run(0, 0, 2)}, reference.proj_rows(0, 2));
    lily::Run run = delta_run(0, 2, rows);
    run.state_out = 1;
    run.snapshots = {{.rows_done = 1, .slot = 2}, {.rows_done = 2, .slot = 3}, {.rows_done = 4, .slot = 4}};
    if (rows > 64) run.snapshots.push_back({.rows_done = 64, .slot = 5});
    run.snapshots.push_back({.rows_done = rows, .slot = 6});
    rig.expect_out(rig.run({run}, reference.proj_rows(2, rows)), reference, 2, each.label);
    for (const StateSnapshot& snapshot : run.snapshots) {
      rig.expect_state(snapshot.slot, reference, 2 + snapshot.rows_done,
                       each.label + ", snapshot in slot " + std::to_string(snapshot.slot));
    }
    EXPECT_EQ(rig.state(6), rig.state(1)) << each.label;
    // A snapshot continues like the sequence itself.
    const Bytes going_on = rig.run({delta_run(2, 3, 4)}, reference.proj_rows(3, 4));
    rig.expect_out(going_on, reference, 3, each.label + ", from the snapshot");
  }
}

TEST_P(gated_delta_net, SmallInputsFeelTheEpsilons) {
  // Queries and keys near the 1e-6 of the l2 norms, values near the epsilon of the gated norm; then rows of zeros.
  const DeltaStores stores(shape(), PlainTensor::Dtype::kBf16);
  constexpr uint32_t kRows = 8;
  Values proj = delta_proj(stores.params, kRows, activation(), 97);
  const uint32_t channels = stores.params.channels();
  for (size_t row = 0; row < kRows; ++row) {
    const auto small = ref::row_of(proj, row, stores.params.proj_width()).first(channels);
    for (double& value : small) {
      value = ref::rounded(static_cast<double>(static_cast<float>(value * 5e-4)), rounding());
    }
    if (row >= 4) std::ranges::fill(small, 0.0);
  }
  const DeltaReference reference(stores.params, proj, activation());
  for (const BackendCase& each : op_backends()) {
    DeltaRig rig(*each.backend, shape(), stores, activation(), kRows, 1);
    rig.expect_out(rig.run({delta_run(0, 0, kRows)}, proj), reference, 0, each.label);
    rig.expect_state(0, reference, kRows, each.label);
  }
}

TEST_P(gated_delta_net, NanInOneRunLeavesTheOthers) {
  const DeltaStores stores(shape(), PlainTensor::Dtype::kBf16);
  const DeltaReference reference(stores.params, delta_proj(stores.params, 4, activation(), 96), activation());
  Values proj = reference.proj();
  append(proj, reference.proj());
  append(proj, reference.proj());
  const size_t width = stores.params.proj_width();
  std::ranges::fill(ref::row_of(proj, 5, width), std::numeric_limits<double>::quiet_NaN());
  for (const BackendCase& each : op_backends()) {
    DeltaRig rig(*each.backend, shape(), stores, activation(), 12, 3);
    const Bytes out = rig.run({delta_run(0, 0, 4), delta_run(1, 0, 4), delta_run(2, 0, 4)}, proj);
    const size_t bytes = rig.out_row_bytes();
    rig.expect_out(rows_of(out, bytes, 0, 4), reference, 0, each.label + ", run before");
    rig.expect_out(rows_of(out, bytes, 4, 1), reference, 0, each.label + ", row before");
    rig.expect_out(rows_of(out, bytes, 8, 4), reference, 0, each.label + ", run after");
    rig.expect_state(0, reference, 4, each.label + ", run before");
    rig.expect_state(2, reference, 4, each.label + ", run after");
    // The broken slot is clean again for the next sequence.
    rig.expect_out(rig.run({delta_run(1, 0, 4)}, reference.proj()), reference, 0, each.label + ", slot reused");
  }
}

LILY_OP_SUITE(gated_delta_net);

}  // namespace
}  // namespace lily::ops
