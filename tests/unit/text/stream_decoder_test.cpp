#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace lily {
namespace {

const std::string kText = "\u010F\u00E1belsk\u00E9 \U0001F469\U0001F3FD\u200D\U0001F680 \uD55C\uAD6D\uC5B4";

TEST(StreamDecoder, TokenByTokenGivesValidTextAtEveryStep) {
  // Case T61.
  const Tokenizer tokenizer = Tokenizer::load(LILY_SOURCE_DIR "/models/demo");
  StreamDecoder decoder;
  std::string joined;
  bool held_back = false;
  for (const TokenId id : tokenizer.encode(kText, AddedTokens::kAllow)) {
    const std::string delta = decoder.push(tokenizer.piece(id));
    EXPECT_TRUE(is_valid_utf8(delta));
    EXPECT_EQ(delta.find("\uFFFD"), std::string::npos);
    held_back = held_back || decoder.has_partial();
    joined += delta;
  }
  EXPECT_TRUE(held_back);
  joined += decoder.finish();
  EXPECT_EQ(joined, kText);
}

TEST(StreamDecoder, AnUnfinishedCharacterIsOneReplacementAtTheVeryEnd) {
  const Tokenizer tokenizer = Tokenizer::load(LILY_SOURCE_DIR "/models/demo");
  const std::vector<TokenId> ids = tokenizer.encode(kText, AddedTokens::kAllow);
  size_t cut_inside = 0;
  for (size_t count = 0; count <= ids.size(); ++count) {
    StreamDecoder decoder;
    std::string bytes;
    std::string joined;
    for (size_t i = 0; i < count; ++i) {
      bytes += tokenizer.piece(ids[i]);
      joined += decoder.push(tokenizer.piece(ids[i]));
    }
    const bool partial = decoder.has_partial();
    cut_inside += partial ? 1 : 0;
    EXPECT_EQ(kText.substr(0, joined.size()), joined);
    EXPECT_EQ(decoder.finish(), partial ? "\uFFFD" : "");
    EXPECT_LT(bytes.size() - joined.size(), 4U);
  }
  EXPECT_GT(cut_inside, 3U);
}

TEST(StreamDecoder, ImpossibleBytesBecomeReplacementsAtOnce) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.push("\xFF"), "\uFFFD");
  EXPECT_EQ(decoder.push("\xE2"), "");
  EXPECT_EQ(decoder.push("\x82"), "");
  EXPECT_EQ(decoder.push("a"),
            "\uFFFD"
            "a");
  EXPECT_EQ(decoder.push("\xE0"), "");
  EXPECT_EQ(decoder.push("\x80"), "\uFFFD\uFFFD");
  EXPECT_EQ(decoder.push(""), "");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, FinishStartsAfresh) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.push("\xF0\x9F\x91"), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_FALSE(decoder.has_partial());
  EXPECT_EQ(decoder.push("\xA9"), "\uFFFD");
  EXPECT_EQ(decoder.push("ok"), "ok");
}

TEST(StreamDecoder, AnyPortionsGiveTheTextOfOnePush) {
  std::mt19937 random(37);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes;
    for (auto left = random() % 20; left != 0; --left) {
      if (random() % 2 == 0) {
        append_utf8(bytes, static_cast<char32_t>(random() % 0x110000));
      } else {
        bytes.push_back(static_cast<char>(random() % 256));
      }
    }
    StreamDecoder decoder;
    std::string joined;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = 1 + random() % 4;
      joined += decoder.push(std::string_view(bytes).substr(at, length));
      ASSERT_TRUE(is_valid_utf8(joined));
      at += length;
    }
    joined += decoder.finish();
    ASSERT_EQ(joined, replace_invalid_utf8(bytes));
  }
}

}  // namespace
}  // namespace lily
