// Seeded mutations, a fixed number on every run: texts must survive encoding, streams any portioning, and broken files
// must be refused. LILY_FUZZ_ROUNDS raises the number of rounds, LILY_FUZZ_SEED starts elsewhere.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tests/unit/text/synthetic_tokenizer.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace lily {
namespace {

using Random = std::mt19937;

size_t setting(const char* name, size_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

Random make_random(size_t stream) {
  return Random(static_cast<uint32_t>(setting("LILY_FUZZ_SEED", 1) * 1000 + stream));
}

const Tokenizer& demo() {
  static const Tokenizer tokenizer = Tokenizer::load(LILY_SOURCE_DIR "/models/demo");
  return tokenizer;
}

std::vector<std::string> corpus() {
  std::vector<std::string> texts;
  for (const auto& item :
       nlohmann::json::parse(read_file(LILY_SOURCE_DIR "/tests/golden/tokenizer-demo.json", size_t{1} << 20U))) {
    texts.push_back(item.at("text").get<std::string>());
  }
  return texts;
}

// One random edit: a byte changed, a part dropped, doubled or moved in from another text, a code point put in.
void mutate(std::string& text, const std::vector<std::string>& texts, Random& random) {
  const size_t at = random() % (text.size() + 1);
  const size_t length = random() % 9;
  switch (random() % 6) {
    case 0:
      if (at < text.size()) {
        text[at] = static_cast<char>(random() % 256);
      }
      break;
    case 1:
      text.erase(at, length);
      break;
    case 2:
      text.insert(at, text.substr(at, length));
      break;
    case 3: {
      const std::string& other = texts[random() % texts.size()];
      text.insert(at, other.substr(random() % (other.size() + 1), length * 3));
      break;
    }
    case 4: {
      std::string code;
      append_utf8(code, static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x400 : 0x110000)));
      text.insert(at, code);
      break;
    }
    default:
      text.insert(at, std::string(length, " \n'<a0\xCC\x81"[random() % 8]));
  }
}

std::string nfc(std::string_view text) {
  std::string storage;
  return std::string(normalize_nfc(text, storage));
}

TEST(TokenizerFuzz, TextSurvivesEncodingAndDecoding) {
  const std::vector<std::string> texts = corpus();
  Random random = make_random(1);
  for (size_t round = 0; round < setting("LILY_FUZZ_ROUNDS", 20000); ++round) {
    std::string bytes = texts[random() % texts.size()];
    for (auto edits = 1 + random() % 6; edits != 0; --edits) {
      mutate(bytes, texts, random);
    }
    // Normal text without added tokens comes back as it is; with added tokens each stretch between them is normalised
    // alone.
    const std::string normal = nfc(replace_invalid_utf8(bytes));
    const std::vector<TokenId> plain = demo().encode(bytes, AddedTokens::kForbid);
    ASSERT_EQ(demo().decode(plain), normal);
    ASSERT_EQ(demo().encode(normal, AddedTokens::kForbid), plain);
    const std::vector<TokenId> ids = demo().encode(bytes, AddedTokens::kAllow);
    ASSERT_EQ(nfc(demo().decode(ids)), normal);
    for (const TokenId id : ids) {
      ASSERT_LT(id, demo().size());
    }
    for (const TokenId id : plain) {
      ASSERT_FALSE(demo().is_added(id));
    }
  }
}

TEST(TokenizerFuzz, RandomIdsStreamAsTheyDecode) {
  Random random = make_random(2);
  for (size_t round = 0; round < setting("LILY_FUZZ_ROUNDS", 20000); ++round) {
    std::vector<TokenId> ids;
    for (auto left = random() % 24; left != 0; --left) {
      ids.push_back(static_cast<TokenId>(random() % (random() % 2 == 0 ? 256 : 6144)));
    }
    StreamDecoder decoder;
    std::string streamed;
    for (const TokenId id : ids) {
      streamed += decoder.push(demo().piece(id));
    }
    streamed += decoder.finish();
    ASSERT_EQ(streamed, demo().decode(ids));
  }
}

TEST(TokenizerFuzz, AnyPortionsStreamAlike) {
  const std::vector<std::string> texts = corpus();
  Random random = make_random(3);
  for (size_t round = 0; round < setting("LILY_FUZZ_ROUNDS", 20000); ++round) {
    std::string bytes = texts[random() % texts.size()];
    for (auto edits = random() % 8; edits != 0; --edits) {
      mutate(bytes, texts, random);
    }
    StreamDecoder decoder;
    std::string streamed;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = random() % 6;
      const std::string delta = decoder.push(std::string_view(bytes).substr(at, length));
      ASSERT_TRUE(is_valid_utf8(delta));
      streamed += delta;
      at += length;
    }
    streamed += decoder.finish();
    ASSERT_EQ(streamed, replace_invalid_utf8(bytes));
  }
}

// Loads the mutated pair; anything but a working tokenizer or a tokenizer error fails the test by escaping or crashing.
bool loads(const std::string& tokenizer, const std::string& config) {
  try {
    const Tokenizer loaded = Tokenizer::load(synthetic::write_model_folder("lily_tokenizer_fuzz", tokenizer, config));
    EXPECT_EQ(loaded.decode(loaded.encode("ab cd\n", AddedTokens::kForbid)), "ab cd\n");
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTokenizer);
    EXPECT_NE(std::string_view(error.what()).find(".json"), std::string_view::npos);
    return false;
  }
}

TEST(TokenizerFuzz, BrokenBytesInFilesNeverCrash) {
  const std::string tokenizer =
      synthetic::make_tokenizer_json({{"a", "b"}, {" ", "c"}, {" c", "d"}}, {"<|end|>", "<think>"}).dump();
  const std::string config =
      R"({"eos_token": "<|end|>", "added_tokens_decoder": {"259": {"content": "<|end|>", "special": true}}})";
  const std::vector<std::string> tokens = {"\"",   "{",  "}",   "[",          "]",       ",",       ":",
                                           "null", "-1", "1e9", "4294967296", "\\u0000", "\\ud800", "true"};
  ASSERT_TRUE(loads(tokenizer, config));
  Random random = make_random(4);
  size_t refused = 0;
  const size_t rounds = setting("LILY_FUZZ_ROUNDS", 20000) / 10;
  for (size_t round = 0; round < rounds; ++round) {
    std::string files[2] = {tokenizer, config};
    for (auto edits = 1 + random() % 2; edits != 0; --edits) {
      mutate(files[random() % 2], tokens, random);
    }
    refused += static_cast<size_t>(!loads(files[0], files[1]));
  }
  EXPECT_GT(refused, rounds / 4);
}

// Replaces one random value anywhere in the document by one of another kind.
void replace_value(synthetic::Json& json, Random& random) {
  synthetic::Json* at = &json;
  while (at->is_structured() && !at->empty() && random() % 5 != 0) {
    auto child = at->begin();
    std::advance(child, static_cast<std::ptrdiff_t>(random() % at->size()));
    at = &*child;
  }
  const synthetic::Json values[] = {
      nullptr, true, -1, 0, 260, 4000000000U, 1.5, "", "a", "a b", "<|end|>", {"a", "b"}, synthetic::Json::object()};
  *at = values[random() % std::size(values)];
}

TEST(TokenizerFuzz, MisplacedValuesInFilesNeverCrash) {
  const synthetic::Json tokenizer =
      synthetic::make_tokenizer_json({{"a", "b"}, {" ", "c"}, {" c", "d"}}, {"<|end|>", "<think>"});
  const auto config = synthetic::Json::parse(
      R"({"eos_token": "<|end|>", "added_tokens_decoder": {"259": {"content": "<|end|>", "special": true}}})");
  Random random = make_random(5);
  size_t refused = 0;
  const size_t rounds = setting("LILY_FUZZ_ROUNDS", 20000) / 10;
  for (size_t round = 0; round < rounds; ++round) {
    synthetic::Json files[2] = {tokenizer, config};
    replace_value(files[random() % 2], random);
    refused += static_cast<size_t>(!loads(files[0].dump(), files[1].dump()));
  }
  EXPECT_GT(refused, rounds / 4);
}

}  // namespace
}  // namespace lily
