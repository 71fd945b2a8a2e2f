#include "text/pretokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace lily {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text) {
  Pieces pieces;
  Pretokenizer scanner(text);
  for (std::string_view piece = scanner.next(); !piece.empty(); piece = scanner.next()) {
    pieces.emplace_back(piece);
  }
  return pieces;
}

// The regex once more, read literally: every alternative in turn, each optional part and each repetition tried longest
// first.
class BacktrackingSplitter {
 public:
  explicit BacktrackingSplitter(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const DecodedChar next = decode_utf8(text, at);
      codes_.push_back(next.code);
      at += next.length;
    }
  }

  Pieces split() const {
    Pieces pieces;
    for (size_t at = 0; at < codes_.size();) {
      const size_t length = match(at);
      EXPECT_GT(length, 0U);
      pieces.emplace_back();
      for (size_t i = 0; i < length; ++i) {
        append_utf8(pieces.back(), codes_[at + i]);
      }
      at += length;
    }
    return pieces;
  }

 private:
  using Test = std::function<bool(char32_t)>;

  static CharClass class_of(char32_t code) { return UnicodeTable::get().char_class(code); }
  static bool newline(char32_t code) { return code == '\r' || code == '\n'; }
  static bool space(char32_t code) { return class_of(code) == CharClass::kSpace || newline(code); }
  static bool letter_or_mark(char32_t code) {
    return class_of(code) == CharClass::kLetter || class_of(code) == CharClass::kMark;
  }
  static bool other(char32_t code) {
    return !space(code) && !letter_or_mark(code) && class_of(code) != CharClass::kNumber;
  }

  size_t run(size_t at, const Test& test) const {
    size_t length = 0;
    while (at + length < codes_.size() && test(codes_[at + length])) {
      ++length;
    }
    return length;
  }

  size_t contraction(size_t at) const {
    for (const std::u32string_view tail : {U"s", U"t", U"re", U"ve", U"m", U"ll", U"d"}) {
      size_t same = 0;
      while (same < tail.size() && at + 1 + same < codes_.size()) {
        const char32_t code = codes_[at + 1 + same];
        const char32_t folded = code >= 'A' && code <= 'Z' ? code + 32 : code == 0x17F ? U's' : code;
        if (folded != tail[same]) {
          break;
        }
        ++same;
      }
      if (codes_[at] == '\'' && same == tail.size()) {
        return 1 + same;
      }
    }
    return 0;
  }

  size_t match(size_t at) const {
    if (const size_t length = contraction(at); length != 0) {
      return length;
    }
    const char32_t first = codes_[at];
    if (!newline(first) && class_of(first) != CharClass::kLetter && class_of(first) != CharClass::kNumber) {
      if (const size_t length = run(at + 1, letter_or_mark); length != 0) {
        return 1 + length;
      }
    }
    if (const size_t length = run(at, letter_or_mark); length != 0) {
      return length;
    }
    if (class_of(first) == CharClass::kNumber) {
      return 1;
    }
    for (const size_t blank : {size_t{1}, size_t{0}}) {
      if (blank == 0 || first == ' ') {
        if (const size_t length = run(at + blank, other); length != 0) {
          return blank + length + run(at + blank + length, newline);
        }
      }
    }
    const size_t blanks = run(at, space);
    for (size_t length = blanks + 1; length-- > 0;) {
      if (const size_t newlines = run(at + length, newline); newlines != 0) {
        return length + newlines;
      }
    }
    for (size_t length = blanks; length > 0; --length) {
      if (at + length == codes_.size() || space(codes_[at + length])) {
        return length;
      }
    }
    return blanks;
  }

  std::u32string codes_;
};

struct Vector {
  std::string text;
  Pieces pieces;
};

TEST(Pretokenizer, SplitsAsTheRegexEngineOfTheReference) {
  const std::vector<Vector> vectors = {
      {"it'S ok", {"it", "'S", " ok"}},
      {"it'\u017F", {"it", "'\u017F"}},
      {"'LLama", {"'LL", "ama"}},
      {"'reading", {"'re", "ading"}},
      {"don\u2019t", {"don", "\u2019t"}},
      {"I'm  x", {"I", "'m", " ", " x"}},
      {"\t\ta", {"\t", "\ta"}},
      {"a \n\n b", {"a", " \n\n", " b"}},
      {"foo   \nbar", {"foo", "   \n", "bar"}},
      {"a\r\rb", {"a", "\r\r", "b"}},
      {"..\n\nx", {"..\n\n", "x"}},
      {"  !a", {" ", " !", "a"}},
      {"(hello)", {"(hello", ")"}},
      {"a_b", {"a", "_b"}},
      {"a\u00A0b", {"a", "\u00A0b"}},
      {"a\u3000\u3000b", {"a", "\u3000", "\u3000b"}},
      {"\u2028x\u2028\u2028y", {"\u2028x", "\u2028", "\u2028y"}},
      {"\u0301!I", {"\u0301", "!I"}},
      {"\n\u0301a", {"\n", "\u0301a"}},
      {"x \u0301", {"x", " \u0301"}},
      {"x\u200Dy", {"x", "\u200Dy"}},
      {"a\u200B b", {"a", "\u200B", " b"}},
      {"\uFEFFa", {"\uFEFFa"}},
      {"\U0001F469\u200D\U0001F4BB", {"\U0001F469\u200D\U0001F4BB"}},
      {"\u65E5\u672C\u8A9E1\u00B2\u00B3\u00BD", {"\u65E5\u672C\u8A9E", "1", "\u00B2", "\u00B3", "\u00BD"}},
      {"\u0939\u093F\u0928\u094D\u0926\u0940", {"\u0939\u093F\u0928\u094D\u0926\u0940"}},
      {"x  ", {"x", "  "}},
  };
  for (const Vector& vector : vectors) {
    EXPECT_EQ(split(vector.text), vector.pieces) << vector.text;
    EXPECT_EQ(BacktrackingSplitter(vector.text).split(), vector.pieces) << vector.text;
  }
}

TEST(Pretokenizer, ContractionsNeedTheirWholeTail) {
  EXPECT_EQ(split("'"), (Pieces{"'"}));
  EXPECT_EQ(split("'l"), (Pieces{"'l"}));
  EXPECT_EQ(split("'l1"), (Pieces{"'l", "1"}));
  EXPECT_EQ(split("'rx"), (Pieces{"'rx"}));
  EXPECT_EQ(split("we'VEx"), (Pieces{"we", "'VE", "x"}));
  EXPECT_EQ(split("''s"), (Pieces{"''", "s"}));
  EXPECT_EQ(split(" 's"), (Pieces{" '", "s"}));
}

TEST(Pretokenizer, EmptyTextHasNoPieces) {
  EXPECT_EQ(split(""), Pieces{});
}

TEST(Pretokenizer, AgreesWithLiteralBacktrackingOnRandomText) {
  const std::u32string pool =
      U"aZsStTdDmMrReEvVlL019 "
      U"\t\n\r.,!'\"_-(){}\u017F\u00E9\u00A0\u3000\u2028\u0085\u0301\u093F\u200D\u200B\u00B2\u65E5\U0001F469'   \n";
  std::mt19937 random(3);
  for (int round = 0; round < 50000; ++round) {
    std::string text;
    for (auto left = random() % 16; left != 0; --left) {
      append_utf8(text, pool[random() % pool.size()]);
    }
    ASSERT_EQ(split(text), BacktrackingSplitter(text).split()) << text;
  }
}

TEST(Pretokenizer, LongWhitespaceRunsTakeLinearTime) {
  // Quadratic scans of these would take hours.
  constexpr size_t kLength = 5000000;
  const std::string spaces(kLength, ' ');
  EXPECT_EQ(split(spaces).size(), 1U);
  EXPECT_EQ(split(spaces + "x").size(), 2U);
  EXPECT_EQ(split("\n" + spaces + "1").size(), 4U);
  EXPECT_EQ(split(spaces + "\n" + spaces).size(), 2U);
  EXPECT_EQ(split(std::string(kLength, '\t') + "!").size(), 3U);
  EXPECT_EQ(split(std::string(kLength, '\'')).size(), 1U);
  EXPECT_EQ(split(std::string(kLength, '7')).size(), kLength);
}

}  // namespace
}  // namespace lily
