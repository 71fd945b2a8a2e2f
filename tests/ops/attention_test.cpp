// qk_norm_rope_append and attention: over block edges, in any cut, through shuffled and shared blocks, beside broken
// neighbours.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "tests/ops/attention_case.h"
#include "tests/ops/backends.h"
#include "tests/ops/op_test.h"

namespace lily::ops {
namespace {

using attention = OpTest;

void append(Values& to, const Values& values) {
  to.insert(to.end(), values.begin(), values.end());
}

TEST_P(attention, MatchesTheReferenceAtEveryRowCount) {
  const uint32_t rows = GetParam().rows(130, 66);
  const AttentionStores stores(shape());
  const AttentionReference reference(stores.params, attention_proj(stores.params, rows, activation(), 111),
                                     activation());
  for (const BackendCase& each : op_backends()) {
    AttentionRig rig(*each.backend, shape(), stores, activation(), {rows, 1, 5, 4});
    rig.set_blocks(0, {3, 0, 4});
    for (const uint32_t count : edge_row_counts(rows)) {
      if (each.threads > 1 && count != 3 && count != 65) continue;
      rig.poison_pool();
      rig.expect_rows(rig.run({attention_run(0, 0, count)}, reference.proj_rows(0, count)), reference, 0,
                      each.label + ", " + std::to_string(count) + " rows");
    }
  }
}

TEST_P(attention, WalksManyBlocks) {
  const bool large = GetParam().name == ShapeName::kLarge;
  const uint32_t rows = large ? 260 : 516;
  const std::vector<uint32_t> checked =
      large ? std::vector<uint32_t>{0, 63, 64, 65, 255, 256, 257}
            : std::vector<uint32_t>{0, 62, 63, 64, 65, 127, 128, 510, 511, 512, 513, 514};
  const AttentionStores stores(shape());
  const AttentionReference reference(stores.params, attention_proj(stores.params, rows, activation(), 112),
                                     activation());
  const std::vector<uint32_t> blocks{7, 2, 9, 0, 5, 1, 8, 3, 6};
  const uint32_t late = rows - 6;  // rows of decode on top of a long prompt
  std::map<std::string, Bytes> outs;
  for (const BackendCase& each : op_backends()) {
    AttentionRig rig(*each.backend, shape(), stores, activation(), {rows, 1, 10, 9});
    rig.set_blocks(0, blocks);
    const AttentionBytes whole = rig.run({attention_run(0, 0, rows)}, reference.proj_rows(0, rows));
    rig.expect_rows(whole, reference, 0, each.label, checked);
    rig.poison_pool();
    (void)rig.run({attention_run(0, 0, late)}, reference.proj_rows(0, late));
    for (uint32_t row = late; row < rows; ++row) {
      const AttentionBytes one = rig.run({attention_run(0, row, 1)}, reference.proj_rows(row, 1));
      rig.expect_rows(one, reference, row, each.label + ", decode", checked);
      if (!each.group.empty()) rig.expect_same(one, rig.rows_of(whole, row, 1), each.label + ", decode");
    }
    if (each.group.empty()) continue;
    expect_same_bytes(whole.out, outs.try_emplace(each.group, whole.out).first->second, rig.row_bytes(),
                      each.label + " against one thread");
  }
}

TEST_P(attention, AnyCutGivesTheSameBytes) {
  const uint32_t rows = GetParam().rows(130, 66);
  const AttentionStores stores(shape());
  const AttentionReference reference(stores.params, attention_proj(stores.params, rows, activation(), 113),
                                     activation());
  for (const BackendCase& each : op_backends()) {
    if (each.group.empty()) continue;
    AttentionRig rig(*each.backend, shape(), stores, activation(), {rows, 1, 3, 3});
    rig.set_blocks(0, {2, 0, 1});
    const AttentionBytes whole = rig.run({attention_run(0, 0, rows)}, reference.proj_rows(0, rows));
    for (const uint32_t piece : {1U, 2U, 3U, 7U, 63U, 64U, 65U}) {
      if (each.threads > 1 && piece != 7) continue;
      rig.poison_pool();
      for (uint32_t first = 0; first < rows; first += piece) {
        const uint32_t count = std::min(piece, rows - first);
        const AttentionBytes part = rig.run({attention_run(0, first, count)}, reference.proj_rows(first, count));
        rig.expect_same(part, rig.rows_of(whole, first, count),
                        each.label + ", pieces of " + std::to_string(piece) + " from " + std::to_string(first));
      }
    }
  }
}

TEST_P(attention, RunsOfOneStepDoNotTouchEachOther) {
  const AttentionStores stores(shape());
  // (rows done before, rows in the mixed step) of the sequences: around a block edge, alone and several
  const std::vector<std::pair<uint32_t, uint32_t>> lengths{{63, 1}, {64, 1}, {65, 1}, {62, 4}, {0, 5}, {70, 2}};
  std::vector<AttentionReference> references;
  references.reserve(lengths.size());
  for (uint32_t i = 0; i < lengths.size(); ++i) {
    const uint32_t rows = lengths[i].first + lengths[i].second;
    references.emplace_back(stores.params, attention_proj(stores.params, rows, activation(), 120 + i), activation());
  }
  const auto sequences = static_cast<uint32_t>(lengths.size());
  for (const BackendCase& each : op_backends()) {
    AttentionRig rig(*each.backend, shape(), stores, activation(), {72, sequences + 1, 2 * sequences + 2, 2});
    std::vector<lily::Run> runs;
    Values proj;
    for (uint32_t i = 0; i < sequences; ++i) {
      rig.set_blocks(i, {2 * sequences - i, i});
      const auto [before, rows] = lengths[i];
      if (before > 0) (void)rig.run({attention_run(i, 0, before)}, references[i].proj_rows(0, before));
      runs.push_back(attention_run(i, before, rows));
      append(proj, references[i].proj_rows(before, rows));
    }
    rig.set_blocks(sequences, {2 * sequences + 1, sequences});
    const AttentionBytes mixed = rig.run(runs, proj);
    uint32_t row = 0;
    for (uint32_t i = 0; i < sequences; ++i) {
      const auto [before, rows] = lengths[i];
      const std::string what = each.label + ", run " + std::to_string(i);
      const AttentionBytes part = rig.rows_of(mixed, row, rows);
      rig.expect_rows(part, references[i], before, what);
      row += rows;
      if (each.group.empty()) continue;
      const AttentionBytes alone =
          rig.run({attention_run(sequences, 0, before + rows)}, references[i].proj_rows(0, before + rows));
      rig.expect_same(part, rig.rows_of(alone, before, rows), what);
    }
  }
}

TEST_P(attention, SequencesMayShareTheBlocksOfAPrefix) {
  const AttentionStores stores(shape());
  const Values prefix = attention_proj(stores.params, 64, activation(), 130);
  std::vector<AttentionReference> references;
  references.reserve(2);
  for (uint32_t i = 0; i < 2; ++i) {
    Values proj = prefix;
    append(proj, attention_proj(stores.params, 3, activation(), 131 + i));
    references.emplace_back(stores.params, proj, activation());
  }
  for (const BackendCase& each : op_backends()) {
    AttentionRig rig(*each.backend, shape(), stores, activation(), {64, 2, 3, 2});
    rig.set_blocks(0, {1, 2});
    rig.set_blocks(1, {1, 0});
    (void)rig.run({attention_run(0, 0, 64)}, prefix);
    Values proj = references[0].proj_rows(64, 3);
    append(proj, references[1].proj_rows(64, 3));
    const AttentionBytes both = rig.run({attention_run(0, 64, 3), attention_run(1, 64, 3)}, proj);
    rig.expect_rows(rig.rows_of(both, 0, 3), references[0], 64, each.label + ", first branch");
    rig.expect_rows(rig.rows_of(both, 3, 3), references[1], 64, each.label + ", second branch");
  }
}

TEST_P(attention, NanInOneRunLeavesTheOthersAndLaterOwnersOfTheBlock) {
  const AttentionStores stores(shape());
  const AttentionReference reference(stores.params, attention_proj(stores.params, 6, activation(), 140), activation());
  Values proj = reference.proj_rows(0, 6);
  append(proj, reference.proj_rows(0, 6));
  append(proj, reference.proj_rows(0, 6));
  std::ranges::fill(ref::row_of(proj, 8, stores.params.proj_width()), std::numeric_limits<double>::quiet_NaN());
  for (const BackendCase& each : op_backends()) {
    AttentionRig rig(*each.backend, shape(), stores, activation(), {18, 3, 3, 1});
    for (uint32_t i = 0; i < 3; ++i) rig.set_blocks(i, {2 - i});
    const AttentionBytes all = rig.run({attention_run(0, 0, 6), attention_run(1, 0, 6), attention_run(2, 0, 6)}, proj);
    rig.expect_rows(rig.rows_of(all, 0, 6), reference, 0, each.label + ", run before");
    rig.expect_rows(rig.rows_of(all, 6, 2), reference, 0, each.label + ", rows before");
    rig.expect_rows(rig.rows_of(all, 12, 6), reference, 0, each.label + ", run after");
    // Position 2 of the block still holds NaN while the next owner is at positions 0 and 1.
    rig.expect_rows(rig.run({attention_run(1, 0, 2)}, reference.proj_rows(0, 2)), reference, 0,
                    each.label + ", block reused");
  }
}

LILY_OP_SUITE(attention);

}  // namespace
}  // namespace lily::ops
