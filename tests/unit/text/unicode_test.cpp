#include "text/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>
#include <set>

namespace lily {
namespace {

std::string utf8(char32_t code) {
  std::string out;
  append_utf8(out, code);
  return out;
}

bool is_surrogate(char32_t code) {
  return code >= 0xD800 && code <= 0xDFFF;
}

std::string reference_nfc(const std::string& text) {
  utf8proc_uint8_t* result = nullptr;
  const auto* input = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = utf8proc_map(input, static_cast<utf8proc_ssize_t>(text.size()), &result,
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  EXPECT_GE(size, 0);
  std::string out(reinterpret_cast<const char*>(result), size < 0 ? 0 : static_cast<size_t>(size));
  std::free(result);
  return out;
}

std::string nfc(const std::string& text) {
  std::string storage;
  return std::string(normalize_nfc(text, storage));
}

TEST(Utf8, EveryScalarValueSurvivesARoundTrip) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (is_surrogate(code)) {
      continue;
    }
    const std::string text = utf8(code);
    const DecodedChar back = decode_utf8(text, 0);
    ASSERT_EQ(back.status, Utf8Status::kValid) << std::hex << static_cast<uint32_t>(code);
    ASSERT_EQ(back.code, code);
    ASSERT_EQ(back.length, text.size());
  }
}

TEST(Utf8, WhatIsNoScalarValueIsAppendedAsReplacement) {
  EXPECT_EQ(utf8(0xD800), "\uFFFD");
  EXPECT_EQ(utf8(0x110000), "\uFFFD");
}

TEST(Utf8, EveryIllFormedSubpartBecomesOneReplacement) {
  EXPECT_EQ(replace_invalid_utf8("a\xFF\xFE z"), "a\uFFFD\uFFFD z");
  EXPECT_EQ(replace_invalid_utf8("\x80"), "\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(replace_invalid_utf8("\xE0\x80\xAF"), "\uFFFD\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // surrogate
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
  EXPECT_EQ(replace_invalid_utf8("\xE2\x80"
                                 "A"),
            "\uFFFD"
            "A");                                             // cut short
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x91"), "\uFFFD");  // cut short by the end
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\xE2\x82\xAC"), "\uFFFD\u20AC");
  EXPECT_EQ(replace_invalid_utf8("plain \u00E9"), "plain \u00E9");
}

TEST(Utf8, ValidityAgreesWithReplacement) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (auto left = random() % 12; left != 0; --left) {
      bytes.push_back(static_cast<char>(random() % 3 == 0 ? random() % 128 : 128 + random() % 128));
    }
    const std::string repaired = replace_invalid_utf8(bytes);
    EXPECT_TRUE(is_valid_utf8(repaired));
    EXPECT_EQ(is_valid_utf8(bytes), repaired == bytes);
  }
}

TEST(Utf8, CompletePrefixLeavesAtMostThreeBytes) {
  std::string out;
  EXPECT_EQ(append_complete_utf8("ab\xF0\x9F\x91", out), 2U);
  EXPECT_EQ(out, "ab");
  out.clear();
  EXPECT_EQ(append_complete_utf8("\xC3", out), 0U);
  EXPECT_EQ(out, "");
  EXPECT_EQ(append_complete_utf8("\xC3\xA9", out), 2U);
  EXPECT_EQ(out, "\u00E9");
}

TEST(UnicodeTable, ClassesAreThoseOfTheUnicodeDatabase) {
  const UnicodeTable& table = UnicodeTable::get();
  std::set<char32_t> space = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  for (char32_t code = 0x09; code <= 0x0D; ++code) {
    space.insert(code);
  }
  for (char32_t code = 0x2000; code <= 0x200A; ++code) {
    space.insert(code);
  }
  for (char32_t code = 0; code < 0x110000; ++code) {
    const std::string category = utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
    CharClass expected = CharClass::kOther;
    if (code == '\r' || code == '\n') {
      expected = CharClass::kNewline;
    } else if (space.contains(code)) {
      expected = CharClass::kSpace;
    } else if (category[0] == 'L') {
      expected = CharClass::kLetter;
    } else if (category[0] == 'M') {
      expected = CharClass::kMark;
    } else if (category[0] == 'N') {
      expected = CharClass::kNumber;
    }
    ASSERT_EQ(table.char_class(code), expected) << std::hex << static_cast<uint32_t>(code);
  }
}

TEST(Nfc, NormalTextIsReturnedAsItIs) {
  const std::string text =
      "plain text, d\u00E9j\u00E0 vu, \u0928\u092E\u0938\u094D\u0924\u0947, \uD55C\uAD6D\uC5B4, \u65E5\u672C\u8A9E";
  std::string storage;
  EXPECT_EQ(normalize_nfc(text, storage).data(), text.data());
  EXPECT_TRUE(storage.empty());
}

TEST(Nfc, ComposesReordersAndKeepsExclusions) {
  EXPECT_EQ(nfc("e\u0301tude"), "\u00E9tude");
  EXPECT_EQ(nfc("q\u0307\u0323x"), "q\u0323\u0307x");  // marks sorted, nothing to compose
  EXPECT_EQ(nfc("s\u0307\u0323"), "\u1E69");           // sorted, then composed twice
  EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "\uD55C");      // Hangul
  EXPECT_EQ(nfc("\uD558\u11AB"), "\uD55C");            // a syllable that takes its last part
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");            // composition exclusion
  EXPECT_EQ(nfc("\u212B \u2126"), "\u00C5 \u03A9");    // singletons
  EXPECT_EQ(nfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(nfc("\uFB01"), "\uFB01");  // compatibility forms stay
}

TEST(Nfc, EveryCodePointAloneAndAfterALetterAgreesWithTheLibrary) {
  for (char32_t code = 0; code < 0x30000; ++code) {
    if (is_surrogate(code)) {
      continue;
    }
    for (const std::string& text : {utf8(code), "a" + utf8(code), utf8(code) + "\u0301", utf8(code) + utf8(code)}) {
      ASSERT_EQ(nfc(text), reference_nfc(text)) << std::hex << static_cast<uint32_t>(code);
    }
  }
}

TEST(Nfc, RandomStringsAgreeWithTheLibrary) {
  std::vector<char32_t> pool;
  for (char32_t code = 0; code < 0x20000; ++code) {
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
    if (property->combining_class != 0 || property->decomp_seqindex != UINT16_MAX ||
        property->comb_index != UINT16_MAX) {
      pool.push_back(code);
    }
  }
  for (char32_t code = 0x1100; code < 0x1200; ++code) {
    pool.push_back(code);
  }
  ASSERT_GT(pool.size(), 1000U);
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto left = 1 + random() % 24; left != 0; --left) {
      switch (random() % 4) {
        case 0:
          text += utf8(U"aeiouAEsq \n"[random() % 11]);
          break;
        case 1:
          text += utf8(static_cast<char32_t>(0x300 + random() % 0x50));
          break;
        default:
          text += utf8(pool[random() % pool.size()]);
      }
    }
    const std::string ours = nfc(text);
    ASSERT_EQ(ours, reference_nfc(text));
    std::string storage;
    ASSERT_EQ(normalize_nfc(ours, storage), ours);
  }
}

TEST(Nfc, RandomCodePointsOfAllPlanesAgreeWithTheLibrary) {
  std::mt19937 random(13);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 100; ++i) {
      text += utf8(static_cast<char32_t>(random() % 0x110000));  // surrogates arrive as U+FFFD
    }
    ASSERT_EQ(nfc(text), reference_nfc(text));
  }
}

TEST(Nfc, MillionsOfUnsortedMarksAreSorted) {
  // 5 MB of acute above and dot below by turns: an exchange sort would need 10^12 steps.
  constexpr size_t kPairs = 1250000;
  std::string text = "q";
  for (size_t i = 0; i < kPairs; ++i) {
    text += "\u0301\u0323";
  }
  std::string expected = "q";
  for (size_t i = 0; i < kPairs; ++i) {
    expected += "\u0323";
  }
  for (size_t i = 0; i < kPairs; ++i) {
    expected += "\u0301";
  }
  EXPECT_TRUE(nfc(text) == expected);
}

}  // namespace
}  // namespace lily
