#include "app/token_list.h"

#include <gtest/gtest.h>

namespace lily {
namespace {

using Ids = std::vector<uint32_t>;

Ids parsed(std::string_view text) {
  const Result<Ids> ids = parse_token_ids(text);
  EXPECT_TRUE(ids.ok()) << text << ": " << ids.failure().message;
  return ids.ok() ? ids.value() : Ids{};
}

std::string refused(std::string_view text) {
  const Result<Ids> ids = parse_token_ids(text);
  EXPECT_FALSE(ids.ok()) << text;
  return ids.ok() ? "" : ids.failure().message;
}

TEST(TokenList, TakesJsonArraysCommasAndWhiteSpace) {
  EXPECT_EQ(parsed("[1, 2,3]"), (Ids{1, 2, 3}));
  EXPECT_EQ(parsed(" [ 7 ]\n"), (Ids{7}));
  EXPECT_EQ(parsed("1,2,3"), (Ids{1, 2, 3}));
  EXPECT_EQ(parsed("1 2\n3\t4"), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(parsed("1, 2 ,3 4"), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(parsed("4294967295"), (Ids{4294967295U}));
}

TEST(TokenList, NothingIsAnEmptyList) {
  EXPECT_TRUE(parsed("").empty());
  EXPECT_TRUE(parsed(" \n").empty());
  EXPECT_TRUE(parsed("[]").empty());
  EXPECT_TRUE(parsed("[ ]").empty());
}

TEST(TokenList, NamesTheEntryThatIsNoId) {
  EXPECT_NE(refused("1,x,3").find("entry 2 is \"x\""), std::string::npos);
  EXPECT_NE(refused("-1").find("\"-1\""), std::string::npos);
  EXPECT_NE(refused("1.5").find("\"1.5\""), std::string::npos);
  EXPECT_NE(refused("4294967296").find("entry 1"), std::string::npos);
  EXPECT_NE(refused("[1, 2").find("no closing"), std::string::npos);
  EXPECT_NE(refused("[").find("no closing"), std::string::npos);
  EXPECT_NE(refused("[1 2]").find("no comma after entry 1"), std::string::npos);
  EXPECT_NE(refused("1,,2").find("entry 2"), std::string::npos);
  EXPECT_NE(refused(",1").find("entry 1"), std::string::npos);
  EXPECT_NE(refused("1,").find("nothing after the comma"), std::string::npos);
  EXPECT_NE(refused("[[1]]").find("entry 1"), std::string::npos);
  EXPECT_NE(refused(std::string(100, 'a')).find("aaa...\""), std::string::npos);
}

TEST(TokenList, IdsMustLieBelowTheVocabulary) {
  EXPECT_TRUE(check_token_ids(Ids{0, 5, 9}, 10).ok());
  const Result<void> bad = check_token_ids(Ids{0, 10, 11}, 10);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.failure().message, "token id 10 at position 1 is not below the vocabulary size 10");
}

}  // namespace
}  // namespace lily
