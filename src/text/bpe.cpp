#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <queue>

#include "base/error.h"

namespace lily {
namespace {

uint64_t pair_of(TokenId left, TokenId right) {
  return uint64_t{left} << 32U | right;
}

unsigned char byte_at(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

}  // namespace

WordCache::Key::Key(std::string_view piece) {
  std::memcpy(words.data(), piece.data(), piece.size());
  words[2] |= uint64_t{piece.size()} << 56U;
  const uint64_t mixed =
      (words[0] ^ std::rotl(words[1], 23) * 0xC2B2AE3D27D4EB4FULL ^ std::rotl(words[2], 41)) * 0x9E3779B97F4A7C15ULL;
  slot = static_cast<size_t>(mixed >> (64U - kSlotBits));
}

void WordCache::store(const Key& key, std::span<const TokenId> ids) {
  if (ids.empty() || ids.size() > kMaxIds) {
    return;
  }
  Entry& entry = entries_[key.slot];
  entry.key = key.words;
  entry.count = static_cast<uint32_t>(ids.size());
  std::copy(ids.begin(), ids.end(), entry.ids.begin());
}

Bpe::Bpe(const std::array<TokenId, 256>& byte_ids, std::span<const MergeRule> merges) : byte_ids_(byte_ids) {
  LILY_CHECK(merges.size() < std::numeric_limits<uint32_t>::max(), "{} merges do not fit a 32-bit rank", merges.size());
  slots_.resize(std::bit_ceil(std::max<size_t>(merges.size() * 2, 2)));
  shift_ = 64U - static_cast<uint32_t>(std::countr_zero(slots_.size()));
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const MergeRule& rule = merges[rank];
    const uint64_t pair = pair_of(rule.left, rule.right);
    size_t at = home_of(pair);
    while (slots_[at].pair != kFreeSlot && slots_[at].pair != pair) {
      at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = {pair, uint64_t{rank} << 32U | rule.result};
  }
}

Bpe::Merge Bpe::find(TokenId left, TokenId right) const {
  const uint64_t pair = pair_of(left, right);
  for (size_t at = home_of(pair);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.pair == pair) {
      return slot.merge;
    }
    if (slot.pair == kFreeSlot) {
      return kNoMerge;
    }
  }
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& out) const {
  if (piece.size() <= kShortPiece) {
    encode_short(piece, out);
  } else {
    encode_long(piece, out);
  }
}

void Bpe::encode(std::string_view piece, WordCache& cache, std::vector<TokenId>& out) const {
  if (piece.size() == 1) {
    out.push_back(byte_ids_[byte_at(piece, 0)]);
    return;
  }
  if (piece.empty() || piece.size() > WordCache::kMaxBytes) {
    encode(piece, out);
    return;
  }
  const WordCache::Key key(piece);
  if (const std::span<const TokenId> known = cache.find(key); !known.empty()) {
    out.insert(out.end(), known.begin(), known.end());
    return;
  }
  const size_t first = out.size();
  encode_short(piece, out);
  cache.store(key, std::span<const TokenId>(out).subspan(first));
}

// Quadratic, but on a few dozen symbols a scan of one small array beats any bookkeeping.
void Bpe::encode_short(std::string_view piece, std::vector<TokenId>& out) const {
  std::array<TokenId, kShortPiece> ids;   // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::array<Merge, kShortPiece> merges;  // merges[i] joins ids[i] and ids[i + 1]
  size_t size = piece.size();
  for (size_t i = 0; i < size; ++i) {
    ids[i] = byte_ids_[byte_at(piece, i)];
  }
  for (size_t i = 0; i + 1 < size; ++i) {
    merges[i] = find(ids[i], ids[i + 1]);
  }
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) {
      if (merges[i] < merges[best]) {
        best = i;
      }
    }
    if (merges[best] == kNoMerge) {
      break;
    }
    ids[best] = static_cast<TokenId>(merges[best]);
    --size;
    for (size_t i = best + 1; i < size; ++i) {
      ids[i] = ids[i + 1];
      merges[i - 1] = merges[i];
    }
    if (best + 1 < size) {
      merges[best] = find(ids[best], ids[best + 1]);
    }
    if (best > 0) {
      merges[best - 1] = find(ids[best - 1], ids[best]);
    }
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(size));
}

// A doubly linked list of symbols and a heap of candidate merges keyed by (rank, position). A heap entry is stale when
// the symbol at its position no longer starts a pair of that rank.
void Bpe::encode_long(std::string_view piece, std::vector<TokenId>& out) const {
  constexpr uint32_t kEnd = std::numeric_limits<uint32_t>::max();
  LILY_CHECK(piece.size() < kEnd, "a piece has {} bytes", piece.size());
  struct Symbol {
    TokenId id;
    uint32_t previous;
    uint32_t next;
    uint32_t rank;  // of the pair that starts here; kEnd when there is none
  };
  const auto size = static_cast<uint32_t>(piece.size());
  std::vector<Symbol> symbols(size);
  for (uint32_t i = 0; i < size; ++i) {
    symbols[i] = {byte_ids_[byte_at(piece, i)], i == 0 ? kEnd : i - 1, i + 1 == size ? kEnd : i + 1, kEnd};
  }
  const auto candidate_at = [&](uint32_t at) -> std::optional<uint64_t> {
    Symbol& symbol = symbols[at];
    const Merge merge = symbol.next == kEnd ? kNoMerge : find(symbol.id, symbols[symbol.next].id);
    symbol.rank = static_cast<uint32_t>(merge >> 32U);
    return merge == kNoMerge ? std::nullopt : std::optional((merge >> 32U) << 32U | at);
  };
  std::vector<uint64_t> initial;
  for (uint32_t i = 0; i < size; ++i) {
    if (const auto candidate = candidate_at(i)) {
      initial.push_back(*candidate);
    }
  }
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap(std::greater<>(), std::move(initial));
  while (!heap.empty()) {
    const auto rank = static_cast<uint32_t>(heap.top() >> 32U);
    const auto at = static_cast<uint32_t>(heap.top());
    heap.pop();
    Symbol& symbol = symbols[at];
    if (symbol.rank != rank) {
      continue;
    }
    Symbol& right = symbols[symbol.next];
    symbol.id = static_cast<TokenId>(find(symbol.id, right.id));
    symbol.next = right.next;
    right.rank = kEnd;
    if (symbol.next != kEnd) {
      symbols[symbol.next].previous = at;
    }
    if (const auto candidate = candidate_at(at)) {
      heap.push(*candidate);
    }
    if (symbol.previous != kEnd) {
      if (const auto candidate = candidate_at(symbol.previous)) {
        heap.push(*candidate);
      }
    }
  }
  for (uint32_t i = 0; i != kEnd; i = symbols[i].next) {
    out.push_back(symbols[i].id);
  }
}

}  // namespace lily
