#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"

namespace lily {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080ULL;

bool is_ascii_word(std::string_view text, size_t at) {
  if (text.size() - at < sizeof(uint64_t)) {
    return false;
  }
  uint64_t word = 0;
  std::memcpy(&word, text.data() + at, sizeof(word));
  return (word & kHighBits) == 0;
}

bool is_ascii(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]) < 0x80;
}

CharClass classify(char32_t code, int category) {
  if (code == '\r' || code == '\n') {
    return CharClass::kNewline;
  }
  // The regex engine's \s is the property White_Space, which holds five controls and U+0085 besides the separators.
  if ((code >= 0x09 && code <= 0x0D) || code == 0x85) {
    return CharClass::kSpace;
  }
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharClass::kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::kSpace;
    default:
      return CharClass::kOther;
  }
}

// Appends the full canonical decomposition of one character, its marks not yet sorted.
void append_decomposition(char32_t code, std::vector<utf8proc_int32_t>& out) {
  std::array<utf8proc_int32_t, 32> parts{};
  int boundary = 0;
  const auto count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(), parts.size(),
                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
  LILY_CHECK(count >= 0 && static_cast<size_t>(count) <= parts.size(), "decomposition of U+{:04X} gave {}",
             static_cast<uint32_t>(code), count);
  out.insert(out.end(), parts.begin(), parts.begin() + count);
}

void compose(std::vector<utf8proc_int32_t>& codes) {
  const auto size = utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                                             static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  LILY_CHECK(size >= 0 && static_cast<size_t>(size) <= codes.size(), "composing {} code points gave {}", codes.size(),
             size);
  codes.resize(static_cast<size_t>(size));
}

bool has_canonical_decomposition(char32_t code, const utf8proc_property_t& property) {
  const bool hangul_syllable = code >= 0xAC00 && code <= 0xD7A3;
  return hangul_syllable || (property.decomp_seqindex != UINT16_MAX && property.decomp_type == 0);
}

// Stable counting sort of a run of marks: utf8proc's own exchange sort takes quadratic time on long unsorted runs.
class MarkSorter {
 public:
  explicit MarkSorter(const UnicodeTable& table) : table_(table) {}

  void sort(std::vector<utf8proc_int32_t>& codes) {
    size_t at = 0;
    while (at < codes.size()) {
      if (class_of(codes[at]) == 0) {
        ++at;
        continue;
      }
      size_t end = at + 1;
      bool sorted = true;
      while (end < codes.size() && class_of(codes[end]) != 0) {
        sorted = sorted && class_of(codes[end - 1]) <= class_of(codes[end]);
        ++end;
      }
      if (!sorted) {
        sort_run(codes, at, end);
      }
      at = end;
    }
  }

 private:
  uint8_t class_of(utf8proc_int32_t code) const { return table_.combining_class(static_cast<char32_t>(code)); }

  void sort_run(std::vector<utf8proc_int32_t>& codes, size_t begin, size_t end) {
    std::array<size_t, 257> start{};
    for (size_t i = begin; i < end; ++i) {
      ++start[class_of(codes[i]) + 1U];
    }
    for (size_t c = 1; c < start.size(); ++c) {
      start[c] += start[c - 1];
    }
    scratch_.resize(end - begin);
    for (size_t i = begin; i < end; ++i) {
      scratch_[start[class_of(codes[i])]++] = codes[i];
    }
    std::copy(scratch_.begin(), scratch_.end(), codes.begin() + static_cast<std::ptrdiff_t>(begin));
  }

  const UnicodeTable& table_;
  std::vector<utf8proc_int32_t> scratch_;
};

// A part of the text that may not be normal: it starts and ends at characters that nothing before them can change.
struct SuspectSpan {
  size_t begin;
  size_t end;
};

// The first suspect span at or after `at`, which must be a safe place to cut; {size, size} when the rest is normal (UAX
// 15 quick check).
SuspectSpan find_suspect(const UnicodeTable& table, std::string_view text, size_t at) {
  size_t stable = at;
  uint8_t last_class = 0;
  bool suspect = false;
  while (at < text.size()) {
    if (is_ascii(text, at)) {
      if (suspect) {
        return {stable, at};
      }
      while (is_ascii_word(text, at)) {
        at += sizeof(uint64_t);
      }
      while (at < text.size() && is_ascii(text, at)) {
        ++at;
      }
      stable = at - 1;
      last_class = 0;
      continue;
    }
    const DecodedChar next = decode_utf8(text, at);
    const uint8_t combining = table.combining_class(next.code);
    if (combining == 0 && !table.may_compose(next.code)) {
      if (suspect) {
        return {stable, at};
      }
      stable = at;
    } else if (table.may_compose(next.code) || (combining != 0 && combining < last_class)) {
      suspect = true;
    }
    last_class = combining;
    at += next.length;
  }
  return {suspect ? stable : text.size(), text.size()};
}

}  // namespace

DecodedChar decode_utf8(std::string_view text, size_t at) {
  const uint32_t lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) {
    return {lead, 1, Utf8Status::kValid};
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return {kReplacementCharacter, 1, Utf8Status::kInvalid};
  }
  const uint32_t more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  // The first continuation byte is narrower after some leads: no overlong forms, no surrogates, nothing above U+10FFFF.
  uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  uint32_t code = lead & (0x3FU >> more);
  for (uint32_t i = 1; i <= more; ++i) {
    if (at + i >= text.size()) {
      return {kReplacementCharacter, i, Utf8Status::kIncomplete};
    }
    const uint32_t byte = static_cast<unsigned char>(text[at + i]);
    if (byte < low || byte > high) {
      return {kReplacementCharacter, i, Utf8Status::kInvalid};
    }
    code = code << 6U | (byte & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {code, more + 1, Utf8Status::kValid};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    code = kReplacementCharacter;
  }
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | code >> 6U);
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | code >> 12U);
    put(0x80U | (code >> 6U & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | code >> 18U);
    put(0x80U | (code >> 12U & 0x3FU));
    put(0x80U | (code >> 6U & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

bool is_valid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (is_ascii_word(text, at)) {
      at += sizeof(uint64_t);
      continue;
    }
    const DecodedChar next = decode_utf8(text, at);
    if (next.status != Utf8Status::kValid) {
      return false;
    }
    at += next.length;
  }
  return true;
}

size_t append_complete_utf8(std::string_view bytes, std::string& out) {
  size_t copied = 0;
  size_t at = 0;
  while (at < bytes.size()) {
    if (is_ascii_word(bytes, at)) {
      at += sizeof(uint64_t);
      continue;
    }
    const DecodedChar next = decode_utf8(bytes, at);
    if (next.status == Utf8Status::kIncomplete) {
      break;
    }
    if (next.status == Utf8Status::kInvalid) {
      out.append(bytes, copied, at - copied);
      append_utf8(out, kReplacementCharacter);
      copied = at + next.length;
    }
    at += next.length;
  }
  out.append(bytes, copied, at - copied);
  return at;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (append_complete_utf8(bytes, out) < bytes.size()) {
    append_utf8(out, kReplacementCharacter);
  }
  return out;
}

const UnicodeTable& UnicodeTable::get() {
  static const UnicodeTable table;
  return table;
}

UnicodeTable::UnicodeTable() {
  std::vector<uint16_t> flat(kCodes);
  std::vector<utf8proc_int32_t> parts;
  std::vector<utf8proc_int32_t> composed;
  for (char32_t code = 0; code < kCodes; ++code) {
    const utf8proc_property_t& property = *utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
    const auto char_class = static_cast<uint32_t>(classify(code, property.category));
    // Or-ed, as an earlier character's decomposition may already have marked this one.
    flat[code] =
        static_cast<uint16_t>(flat[code] | static_cast<uint32_t>(property.combining_class) | char_class << kClassShift);
    if (!has_canonical_decomposition(code, property)) {
      continue;
    }
    parts.clear();
    append_decomposition(code, parts);
    composed = parts;
    compose(composed);
    if (composed.size() != 1 || static_cast<char32_t>(composed[0]) != code) {
      flat[code] |= kMayCompose;
      continue;
    }
    // A little more than the second characters of all primary composites; too many only costs time.
    for (size_t i = 1; i < parts.size(); ++i) {
      flat[static_cast<size_t>(parts[i])] |= kMayCompose;
    }
  }
  std::map<std::vector<uint16_t>, uint16_t> seen;
  for (size_t block = 0; block < block_of_.size(); ++block) {
    const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
    std::vector<uint16_t> content(begin, begin + kBlock);
    const auto next_index = static_cast<uint16_t>(seen.size());
    const auto [place, is_new] = seen.try_emplace(std::move(content), next_index);
    if (is_new) {
      entries_.insert(entries_.end(), place->first.begin(), place->first.end());
    }
    block_of_[block] = place->second;
  }
}

std::string_view normalize_nfc(std::string_view text, std::string& storage) {
  const UnicodeTable& table = UnicodeTable::get();
  SuspectSpan span = find_suspect(table, text, 0);
  if (span.begin == text.size()) {
    return text;
  }
  storage.clear();
  storage.reserve(text.size());
  MarkSorter sorter(table);
  std::vector<utf8proc_int32_t> codes;
  size_t done = 0;
  while (span.begin < text.size()) {
    storage.append(text, done, span.begin - done);
    codes.clear();
    for (size_t at = span.begin; at < span.end;) {
      const DecodedChar next = decode_utf8(text, at);
      append_decomposition(next.code, codes);
      at += next.length;
    }
    sorter.sort(codes);
    compose(codes);
    for (const utf8proc_int32_t code : codes) {
      append_utf8(storage, static_cast<char32_t>(code));
    }
    done = span.end;
    span = find_suspect(table, text, done);
  }
  storage.append(text, done);
  return storage;
}

}  // namespace lily
