#include "text/bpe.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/text/synthetic_tokenizer.h"
#include "text/tokenizer_file.h"

namespace lily {
namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

// The tables under test beside the encoder by the book, from one file.
struct Pair {
  explicit Pair(const Merges& merges)
      : json(synthetic::make_tokenizer_json(merges, {})),
        file(read_tokenizer_files(synthetic::write_model_folder("lily_bpe_test", json.dump(), ""))),
        bpe(file.byte_ids, file.merges),
        naive(json) {}

  std::vector<TokenId> encode(std::string_view piece) const {
    std::vector<TokenId> ids;
    bpe.encode(piece, ids);
    return ids;
  }

  synthetic::Json json;
  TokenizerFile file;
  Bpe bpe;
  synthetic::NaiveBpe naive;
};

// Merges of random known symbols, so that many texts have overlapping and nested candidates.
Merges random_merges(std::mt19937& random, const std::string& alphabet, size_t count) {
  std::vector<std::string> symbols;
  for (const char c : alphabet) {
    symbols.emplace_back(1, c);
  }
  Merges merges;
  while (merges.size() < count) {
    std::pair<std::string, std::string> merge(symbols[random() % symbols.size()], symbols[random() % symbols.size()]);
    if (merge.first.size() + merge.second.size() > 12 ||
        std::find(merges.begin(), merges.end(), merge) != merges.end()) {
      continue;
    }
    symbols.push_back(merge.first + merge.second);
    merges.push_back(std::move(merge));
  }
  return merges;
}

std::string random_text(std::mt19937& random, const std::string& alphabet, size_t length) {
  std::string text;
  while (text.size() < length) {
    text.push_back(alphabet[random() % alphabet.size()]);
  }
  return text;
}

TEST(Bpe, MergesTheLowestRankFirstAndTheLeftmostOfEquals) {
  const Pair pair({{"b", "c"}, {"a", "b"}, {"a", "a"}});
  EXPECT_EQ(pair.encode("abc"), (std::vector<TokenId>{pair.file.byte_ids['a'], 256}));
  EXPECT_EQ(pair.encode("ab"), (std::vector<TokenId>{257}));
  EXPECT_EQ(pair.encode("aaa"), (std::vector<TokenId>{258, pair.file.byte_ids['a']}));
}

TEST(Bpe, AMergeThatAppearsLateMayOutrankAnEarlierOne) {
  const Pair pair({{"ab", "c"}, {"a", "b"}, {"c", "d"}});
  EXPECT_EQ(pair.encode("abcd"), pair.naive.encode("abcd"));
  EXPECT_EQ(pair.encode("abcd").size(), 2U);
}

TEST(Bpe, IdsComeFromTheVocabularyNotFromRanks) {
  synthetic::Json json = synthetic::make_tokenizer_json({{"a", "b"}, {"c", "d"}}, {});
  std::swap(json["model"]["vocab"]["ab"], json["model"]["vocab"]["cd"]);
  const TokenizerFile file = read_tokenizer_files(synthetic::write_model_folder("lily_bpe_ids", json.dump(), ""));
  std::vector<TokenId> ids;
  Bpe(file.byte_ids, file.merges).encode("abcd", ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{257, 256}));
}

TEST(Bpe, AgreesWithTheEncoderByTheBookOnRandomTables) {
  std::mt19937 random(17);
  for (int table = 0; table < 12; ++table) {
    const std::string alphabet = std::string("abcdexyz\xC3\xA9\xE2").substr(0, 2 + random() % 10);
    const Pair pair(random_merges(random, alphabet, 20 + random() % 100));
    for (int round = 0; round < 60; ++round) {
      // Both sides of the limit between the two ways of encoding.
      const std::string text = random_text(random, alphabet, 1 + random() % 140);
      ASSERT_EQ(pair.encode(text), pair.naive.encode(text)) << text;
    }
  }
}

TEST(Bpe, ShortAndLongPiecesAreEncodedAlikeAtTheLimit) {
  std::mt19937 random(19);
  const Pair pair(random_merges(random, "ab", 60));
  for (size_t length = 20; length <= 70; ++length) {
    const std::string text = random_text(random, "ab", length);
    ASSERT_EQ(pair.encode(text), pair.naive.encode(text)) << length;
  }
}

TEST(WordCache, ChangesNoIds) {
  std::mt19937 random(23);
  const Pair pair(random_merges(random, "abcd", 80));
  WordCache cache;
  for (int round = 0; round < 60000; ++round) {
    // Few short words come again and again, many long ones push them out of their slots.
    const std::string text = random_text(random, "abcd", 1 + random() % (round % 2 == 0 ? 4 : 30));
    std::vector<TokenId> cached = {7};
    pair.bpe.encode(text, cache, cached);
    std::vector<TokenId> plain = {7};
    pair.bpe.encode(text, plain);
    ASSERT_EQ(cached, plain) << text;
  }
}

TEST(WordCache, TellsApartPiecesThatDifferOnlyInTrailingNulls) {
  const Pair pair(Merges{{"a", "b"}});
  WordCache cache;
  for (int round = 0; round < 2; ++round) {
    for (size_t nulls = 0; nulls < 10; ++nulls) {
      std::vector<TokenId> ids;
      pair.bpe.encode("ab" + std::string(nulls, '\0'), cache, ids);
      EXPECT_EQ(ids.size(), 1 + nulls);
    }
  }
}

TEST(WordCache, HoldsOnlyWhatFits) {
  WordCache cache;
  const std::vector<TokenId> ids(WordCache::kMaxIds + 1, 5);
  const WordCache::Key key("word");
  cache.store(key, ids);
  EXPECT_TRUE(cache.find(key).empty());
  cache.store(key, std::span(ids).first(WordCache::kMaxIds));
  EXPECT_EQ(cache.find(key).size(), WordCache::kMaxIds);
  EXPECT_TRUE(cache.find(WordCache::Key("words")).empty());
}

}  // namespace
}  // namespace lily
