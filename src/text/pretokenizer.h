// Splits text into the pieces that byte-pair encoding works on: a hand-written scanner of the family's regex
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|
//   ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// Linear: no character is looked at more than a fixed number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/unicode.h"

namespace lily {

/// The regex as tokenizer.json must spell it.
inline constexpr std::string_view kPretokenizerRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Walks over valid UTF-8 already in NFC; the pieces, joined, are the text.
class Pretokenizer {
 public:
  explicit Pretokenizer(std::string_view text) : table_(UnicodeTable::get()), text_(text) {}

  /// The next piece, empty at the end of the text.
  std::string_view next() {
    const size_t start = at_;
    if (start < text_.size()) {
      at_ = end_of_piece(start);
    }
    return text_.substr(start, at_ - start);
  }

 private:
  struct Seen {
    CharClass char_class;
    uint32_t length;  // 0 past the end
  };

  Seen look(size_t at) const;
  size_t end_of_piece(size_t start) const;
  size_t skip_word(size_t at) const;
  size_t skip_other(size_t at) const;
  size_t skip_newlines(size_t at) const;
  size_t end_of_space(size_t start) const;
  size_t contraction_length(size_t start) const;

  const UnicodeTable& table_;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace lily
