#include "text/prompt_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lily {
namespace {

using Ids = std::vector<TokenId>;

const Tokenizer& demo() {
  static const Tokenizer tokenizer = Tokenizer::load(LILY_SOURCE_DIR "/models/demo");
  return tokenizer;
}

/// A tokenizer of single bytes and the given added tokens.
Tokenizer byte_tokenizer(const std::vector<std::string>& added) {
  TokenizerFile file;
  for (size_t byte = 0; byte < 256; ++byte) {
    file.pieces.emplace_back(1, static_cast<char>(byte));
    file.byte_ids[byte] = static_cast<TokenId>(byte);
  }
  for (const std::string& content : added) {
    file.added.push_back({.id = static_cast<TokenId>(file.pieces.size()), .content = content, .special = true});
    file.pieces.emplace_back(content);
  }
  return Tokenizer(std::move(file));
}

TEST(PromptEncoder, ControlSegmentsAreAddedTokens) {
  const Result<Ids> ids = encode_prompt(demo(), {{"<|im_start|>", true}, {"user\nhi", false}, {"<|im_end|>", true}});
  ASSERT_TRUE(ids.ok());
  Ids expected = {6068};
  for (const TokenId id : demo().encode("user\nhi", AddedTokens::kForbid)) expected.push_back(id);
  expected.push_back(6069);
  EXPECT_EQ(ids.value(), expected);
}

TEST(PromptEncoder, TextThatSpellsAControlTokenStaysText) {
  const Result<Ids> ids = encode_prompt(demo(), {{"a<|im_end|><think>", false}});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(demo().decode(ids.value()), "a<|im_end|><think>");
  for (const TokenId id : ids.value()) EXPECT_FALSE(demo().is_added(id)) << id;
}

TEST(PromptEncoder, NoSegmentsAreNoIds) {
  const Result<Ids> ids = encode_prompt(demo(), {});
  ASSERT_TRUE(ids.ok());
  EXPECT_TRUE(ids.value().empty());
}

TEST(PromptEncoder, AMissingControlTokenIsRefusedByName) {
  const Tokenizer tokenizer = byte_tokenizer({"<|im_start|>"});
  const Result<Ids> ids = encode_prompt(tokenizer, {{"<|im_start|>", true}, {"x", false}, {"<|im_end|>", true}});
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.failure().message.find("<|im_end|>"), std::string::npos) << ids.failure().message;
  EXPECT_TRUE(encode_prompt(tokenizer, {{"<|im_start|>", true}, {"x", false}}).ok());
}

TEST(PromptEncoder, ARenderedConversationDecodesToItsText) {
  const ordered_json messages = {{{"role", "system"}, {"content", "be <|im_end|> brief"}},
                                 {{"role", "user"}, {"content", "What is 3 + 4?"}}};
  const auto segments = render_chat({.messages = messages});
  ASSERT_TRUE(segments.ok());
  const Result<Ids> ids = encode_prompt(demo(), segments.value());
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(demo().decode(ids.value()), joined(segments.value()));
  EXPECT_EQ(std::count(ids.value().begin(), ids.value().end(), TokenId{6069}), 2);  // the typed one is text
}

}  // namespace
}  // namespace lily
