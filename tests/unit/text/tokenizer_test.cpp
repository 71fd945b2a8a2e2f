#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "base/mapped_file.h"
#include "tests/unit/text/synthetic_tokenizer.h"
#include "text/pretokenizer.h"
#include "text/unicode.h"

namespace lily {
namespace {

using Ids = std::vector<TokenId>;
using synthetic::Json;

constexpr size_t kFileBytes = size_t{64} << 20U;
const char* const kDemo = LILY_SOURCE_DIR "/models/demo";

const Tokenizer& demo() {
  static const Tokenizer tokenizer = Tokenizer::load(kDemo);
  return tokenizer;
}

const Json& demo_json() {
  static const Json json = Json::parse(read_file(std::string(kDemo) + "/tokenizer.json", kFileBytes));
  return json;
}

// The pipeline once more, with the library's NFC and merging by the book. No added tokens.
Ids reference_encode(std::string_view text) {
  static const synthetic::NaiveBpe naive(demo_json());
  std::string storage;
  Pretokenizer pieces(normalize_nfc(text, storage));
  Ids ids;
  for (std::string_view piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    const Ids part = naive.encode(piece);
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

std::string nfc(std::string_view text) {
  std::string storage;
  return std::string(normalize_nfc(text, storage));
}

// Runs on a thread whose whole stack has 512 KiB.
void run_on_small_stack(std::function<void()> body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, size_t{512} << 10U), 0);
  pthread_t thread{};
  const auto entry = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, entry, &body), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

TEST(Tokenizer, GivesTheIdsOfTheReferenceLibrary) {
  const Json golden = Json::parse(read_file(LILY_SOURCE_DIR "/tests/golden/tokenizer-demo.json", kFileBytes));
  ASSERT_EQ(golden.size(), 46U);
  for (const Json& item : golden) {
    const auto text = item.at("text").get<std::string>();
    const Ids ids = demo().encode(text, AddedTokens::kAllow);
    EXPECT_EQ(ids, item.at("ids").get<Ids>()) << text;
    EXPECT_EQ(demo().decode(ids), nfc(text));
  }
}

TEST(Tokenizer, EncodesTextThatTripsOthers) {
  // Case T59: the ids of an independent encoder, and the way back.
  const std::string nul(1, '\0');
  for (const std::string& text : std::vector<std::string>{
           "e\u0301tude", "\u0E01\u0E33\u0E25\u0E31\u0E07", "\u0939\u093F\u0928\u094D\u0926\u0940",
           "\u0928\u092E\u0938\u094D\u0924\u0947123", "->(x):\n", "2026-11-29", "    return", "\r\n\r\n", "don't",
           "DON'T", "\U0001F468\u200D\U0001F469\u200D\U0001F467\u200D\U0001F466", "\u200B", "\uFEFF", nul,
           "a" + nul + nul + "b"}) {
    const Ids ids = demo().encode(text, AddedTokens::kAllow);
    EXPECT_EQ(ids, reference_encode(text)) << text;
    EXPECT_EQ(demo().decode(ids), nfc(text)) << text;
  }
}

TEST(Tokenizer, InvalidBytesCountAsReplacementCharacters) {
  EXPECT_EQ(demo().encode("\xFF", AddedTokens::kAllow), demo().encode("\uFFFD", AddedTokens::kAllow));
  EXPECT_EQ(demo().encode("a\xFF\xFF z", AddedTokens::kForbid), demo().encode("a\uFFFD\uFFFD z", AddedTokens::kForbid));
  EXPECT_EQ(demo().decode(demo().encode("a\xE2\x82", AddedTokens::kAllow)), "a\uFFFD");
}

TEST(Tokenizer, SingleByteIdsFollowTheByteMap) {
  const auto expected = [](unsigned byte) -> TokenId {
    if (byte >= 33 && byte <= 126) return byte - 33;
    if (byte >= 161 && byte <= 172) return 94 + (byte - 161);
    if (byte >= 174) return 106 + (byte - 174);
    if (byte <= 32) return 188 + byte;
    if (byte == 127) return 221;
    return byte == 173 ? 255 : 222 + (byte - 128);
  };
  for (unsigned byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(demo().piece(expected(byte)), std::string(1, static_cast<char>(static_cast<unsigned char>(byte))))
        << byte;
  }
}

TEST(Tokenizer, AddedTokensCanBeForbidden) {
  const std::string text = "a<|im_end|>b<think>";
  EXPECT_EQ(demo().encode(text, AddedTokens::kAllow), (Ids{64, 6069, 65, 6078}));
  const Ids plain = demo().encode(text, AddedTokens::kForbid);
  EXPECT_EQ(plain, reference_encode(text));
  for (const TokenId id : plain) {
    EXPECT_FALSE(demo().is_added(id));
  }
  EXPECT_EQ(demo().decode(plain), text);
}

TEST(Tokenizer, KnowsItsAddedTokens) {
  EXPECT_EQ(demo().size(), 6080U);
  EXPECT_EQ(demo().find_added("<|im_end|>"), std::optional<TokenId>(6069));
  EXPECT_EQ(demo().find_added("</think>"), std::optional<TokenId>(6079));
  EXPECT_EQ(demo().find_added("the"), std::nullopt);
  EXPECT_EQ(demo().eos_token(), std::optional<TokenId>(6069));
  EXPECT_TRUE(demo().is_added(6069) && demo().is_special(6069));
  EXPECT_TRUE(demo().is_added(6078) && !demo().is_special(6078));
  EXPECT_FALSE(demo().is_added(64) || demo().is_special(64));
  EXPECT_EQ(demo().piece(6078), "<think>");
}

TEST(Tokenizer, PaddingIdsAreEmpty) {
  for (const TokenId id : {6080U, 6143U, 1000000U, 0xFFFFFFFFU}) {
    EXPECT_EQ(demo().piece(id), "");
    EXPECT_FALSE(demo().is_added(id));
    EXPECT_FALSE(demo().is_special(id));
  }
  EXPECT_EQ(demo().decode(Ids{64, 6143, 65}), "ab");
}

TEST(Tokenizer, DecodesPartsOfCharactersToReplacements) {
  EXPECT_EQ(demo().decode(Ids{2929, 239}), "\uFFFD");
  EXPECT_EQ(demo().decode(Ids{2929, 239, 102}), "\U0001F469");
  EXPECT_EQ(demo().decode(Ids{102, 64}),
            "\uFFFD"
            "a");
  EXPECT_EQ(demo().decode({}), "");
}

TEST(Tokenizer, TakesTheLeftmostAndLongestAddedToken) {
  const Json json = synthetic::make_tokenizer_json({}, {"<a>", "<a><b>", "<b>", "b><c>", "\u1E69"});
  const Tokenizer tokenizer = Tokenizer::load(synthetic::write_model_folder("lily_added", json.dump(), ""));
  const TokenId first = *tokenizer.find_added("<a>");
  EXPECT_EQ(tokenizer.encode("<a><b>", AddedTokens::kAllow), (Ids{first + 1}));
  EXPECT_EQ(tokenizer.encode("<a><a><b><b>", AddedTokens::kAllow), (Ids{first, first + 1, first + 2}));
  EXPECT_EQ(tokenizer.encode("<b><c>", AddedTokens::kAllow).front(), first + 2);
  // Added tokens are found before normalisation: the decomposed spelling is not one.
  EXPECT_EQ(tokenizer.encode("\u1E69", AddedTokens::kAllow), (Ids{first + 4}));
  EXPECT_EQ(tokenizer.encode("s\u0323\u0307", AddedTokens::kAllow), tokenizer.encode("\u1E69", AddedTokens::kForbid));
}

TEST(Tokenizer, RandomTextAgreesWithTheEncoderByTheBook) {
  std::mt19937 random(29);
  const std::string words[] = {"the", " king", "'s", " \n",        "\u00E9", "e\u0301", "\u65E5\u672C",
                               "123", "...",   "  ", "\U0001F469", "ing",    " said"};
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (auto left = random() % 40; left != 0; --left) {
      if (random() % 3 != 0) {
        text += words[random() % std::size(words)];
      } else {
        append_utf8(text, static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x80 : 0x110000)));
      }
    }
    ASSERT_EQ(demo().encode(text, AddedTokens::kForbid), reference_encode(text)) << text;
  }
}

TEST(Tokenizer, ManyThreadsGetTheSameIds) {
  const Json golden = Json::parse(read_file(LILY_SOURCE_DIR "/tests/golden/tokenizer-demo.json", kFileBytes));
  std::vector<int> wrong(6, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&golden, &count] {
      for (int round = 0; round < 30; ++round) {
        for (const Json& item : golden) {
          count += demo().encode(item.at("text").get<std::string>(), AddedTokens::kAllow) == item.at("ids").get<Ids>()
                       ? 0
                       : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(6, 0));
}

TEST(Tokenizer, CanBeMoved) {
  Tokenizer first = Tokenizer::load(kDemo);
  Tokenizer second = std::move(first);
  EXPECT_EQ(second.encode("Hello, world!", AddedTokens::kAllow), (Ids{2939, 11, 1232, 0}));
}

// Case T60. A quadratic step anywhere would take hours, so reaching the end is the proof of linear time.
class HugeInput : public testing::Test {
 protected:
  static constexpr size_t kBytes = 5000000;

  static const Tokenizer& merging() {
    static const Tokenizer tokenizer = [] {
      const Json json = synthetic::make_tokenizer_json({{"a", "a"},
                                                        {"aa", "aa"},
                                                        {"aaaa", "aaaa"},
                                                        {" ", " "},
                                                        {"  ", "  "},
                                                        {"\xCC", "\x81"},
                                                        {"\xCC\x81", "\xCC\x81"}},
                                                       {"<|x|>", "<<<"});
      return Tokenizer::load(synthetic::write_model_folder("lily_huge", json.dump(), ""));
    }();
    return tokenizer;
  }

  static std::string repeat(std::string_view part, size_t bytes) {
    std::string text;
    while (text.size() < bytes) {
      text += part;
    }
    return text;
  }

  // Encodes on a small stack and checks the way back.
  static Ids encode(const Tokenizer& tokenizer, const std::string& text) {
    Ids ids;
    run_on_small_stack([&] { ids = tokenizer.encode(text, AddedTokens::kAllow); });
    EXPECT_TRUE(tokenizer.decode(ids) == nfc(text));
    return ids;
  }
};

TEST_F(HugeInput, OneLetter) {
  // 625,000 tokens of eight letters each.
  EXPECT_EQ(encode(merging(), repeat("a", kBytes)), Ids(kBytes / 8, 258));
}

TEST_F(HugeInput, Spaces) {
  EXPECT_EQ(encode(merging(), repeat(" ", kBytes / 5)), Ids(kBytes / 20, 260));
  encode(demo(), repeat(" ", kBytes));
  encode(demo(), repeat(" ", kBytes / 5) + "x");
}

TEST_F(HugeInput, CombiningMarks) {
  EXPECT_EQ(encode(merging(), repeat("\u0301", kBytes / 5)), Ids(kBytes / 20, 262));
  encode(demo(), repeat("\u0301", kBytes));
  encode(demo(), repeat("\u0301\u0323", kBytes / 5));
}

TEST_F(HugeInput, StartsOfAddedTokens) {
  encode(demo(), repeat("<", kBytes / 5));
  encode(demo(), repeat("<|im_start|", kBytes / 5));
  EXPECT_EQ(encode(merging(), repeat("<<<", kBytes / 5)).size(), (kBytes / 5 + 2) / 3);
}

TEST_F(HugeInput, RandomCodePointsAgreeWithTheEncoderByTheBookOnSamples) {
  std::mt19937 random(31);
  std::string text;
  while (text.size() < 1000000) {
    append_utf8(text, static_cast<char32_t>(random() % 0x110000));
  }
  encode(demo(), text);
  for (size_t at = 0; at + 4000 < text.size(); at += 50000) {
    const std::string sample = replace_invalid_utf8(std::string_view(text).substr(at, 2000));
    ASSERT_EQ(demo().encode(sample, AddedTokens::kAllow), reference_encode(sample));
  }
}

TEST_F(HugeInput, SamplesOfRunsAgreeWithTheEncoderByTheBook) {
  for (const std::string_view part : {"a", " ", "\u0301", ".", "\n", "ab", " a"}) {
    const std::string text = repeat(part, 700);
    EXPECT_EQ(demo().encode(text, AddedTokens::kAllow), reference_encode(text));
  }
}

}  // namespace
}  // namespace lily
