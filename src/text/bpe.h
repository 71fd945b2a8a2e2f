// Byte-level byte-pair encoding of one piece, and the cache that makes common words cheap.
// Token ids come from the vocabulary; a merge's place in the list is only its priority.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lily {

using TokenId = uint32_t;

/// One line of the merge list: `left` followed by `right` becomes `result`.
struct MergeRule {
  TokenId left;
  TokenId right;
  TokenId result;
};

/// A bounded memory of encoded pieces, direct mapped: a newcomer takes the place of whatever shares its slot. Not
/// thread-safe.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 23;
  static constexpr size_t kMaxIds = 9;

  /// A piece of 1 to kMaxBytes bytes, zero-padded, its length in the last byte.
  struct Key {
    explicit Key(std::string_view piece);
    std::array<uint64_t, 3> words{};
    size_t slot;
  };

  WordCache() : entries_(kSlots) {}

  /// The ids stored for the piece, empty when there are none.
  std::span<const TokenId> find(const Key& key) const {
    const Entry& entry = entries_[key.slot];
    return {entry.ids.data(), entry.key == key.words ? entry.count : 0};
  }
  /// Stores 1 to kMaxIds ids; more are ignored.
  void store(const Key& key, std::span<const TokenId> ids);

 private:
  static constexpr size_t kSlotBits = 15;
  static constexpr size_t kSlots = size_t{1} << kSlotBits;

  struct Entry {  // one cache line
    std::array<uint64_t, 3> key{};
    uint32_t count = 0;
    std::array<TokenId, kMaxIds> ids{};
  };

  std::vector<Entry> entries_;
};

/// The merge table. Immutable after construction, so any number of threads may encode.
class Bpe {
 public:
  /// byte_ids[b] is the token of the single byte b; `merges` in order of priority. Of a pair listed twice the later
  /// line counts.
  Bpe(const std::array<TokenId, 256>& byte_ids, std::span<const MergeRule> merges);

  /// Appends the ids of one piece: the adjacent pair of lowest rank is merged first, the leftmost of equals, until no
  /// pair has a rank. O(n log n) in the bytes of the piece, which must be fewer than 2^32.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;
  /// The same through a cache that has seen only this Bpe.
  void encode(std::string_view piece, WordCache& cache, std::vector<TokenId>& out) const;

 private:
  // Rank in the high half, result in the low half: the smallest value is the merge to do.
  using Merge = uint64_t;
  static constexpr Merge kNoMerge = ~Merge{0};
  static constexpr uint64_t kFreeSlot = ~uint64_t{0};
  static constexpr size_t kShortPiece = 64;

  struct Slot {
    uint64_t pair = kFreeSlot;
    Merge merge = kNoMerge;
  };

  size_t home_of(uint64_t pair) const { return static_cast<size_t>((pair * 0x9E3779B97F4A7C15ULL) >> shift_); }
  Merge find(TokenId left, TokenId right) const;
  void encode_short(std::string_view piece, std::vector<TokenId>& out) const;
  void encode_long(std::string_view piece, std::vector<TokenId>& out) const;

  std::array<TokenId, 256> byte_ids_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  uint32_t shift_ = 0;
};

}  // namespace lily
