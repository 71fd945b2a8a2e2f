#include "text/tokenizer_file.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tests/unit/text/synthetic_tokenizer.h"
#include "text/tokenizer.h"

namespace lily {
namespace {

using synthetic::Json;

const std::vector<std::pair<std::string, std::string>> kMerges = {{"a", "b"}, {" ", "ab"}, {"c", "d"}};

Json valid_json() {
  return synthetic::make_tokenizer_json(kMerges, {"<|end|>", "<think>"});
}

Tokenizer load(const Json& tokenizer, const Json& config = nullptr) {
  return Tokenizer::load(
      synthetic::write_model_folder("lily_file_test", tokenizer.dump(), config.is_null() ? "" : config.dump()));
}

// The message of the refusal, checked to be a tokenizer error that names the file; empty when the files were accepted.
std::string refusal_of_text(const std::string& tokenizer, const std::string& config, const std::string& file) {
  try {
    Tokenizer::load(synthetic::write_model_folder("lily_file_test", tokenizer, config));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTokenizer);
    EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

std::string refusal_of(const std::function<void(Json&)>& edit) {
  Json json = valid_json();
  edit(json);
  return refusal_of_text(json.dump(), "", "/tokenizer.json");
}

std::string refusal_of_config(const Json& config) {
  return refusal_of_text(valid_json().dump(), config.dump(), "/tokenizer_config.json");
}

#define EXPECT_SAYS(message, part) EXPECT_NE(std::string(message).find(part), std::string::npos) << (message)

TEST(TokenizerFile, BothFormsOfMergesGiveTheSameTokenizer) {
  Json strings = valid_json();
  for (Json& merge : strings["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const Tokenizer first = load(valid_json());
  const Tokenizer second = load(strings);
  for (const std::string_view text : {"ab ab", "cd", "abcd <think>"}) {
    EXPECT_EQ(first.encode(text, AddedTokens::kAllow), second.encode(text, AddedTokens::kAllow));
  }
  EXPECT_EQ(first.encode(" ab", AddedTokens::kAllow), (std::vector<TokenId>{257}));
}

TEST(TokenizerFile, AddedTokensMayStandInEitherFile) {
  const Json config = {{"added_tokens_decoder",
                        {{"259", {{"content", "<|end|>"}, {"special", true}}},
                         {"260", {{"content", "<think>"}, {"special", false}}},
                         {"300", {{"content", "<|far|>"}, {"special", true}, {"normalized", false}}}}},
                       {"eos_token", "<|end|>"}};
  const Tokenizer both = load(valid_json(), config);
  EXPECT_EQ(both.find_added("<|far|>"), std::optional<TokenId>(300));
  EXPECT_EQ(both.size(), 301U);
  EXPECT_EQ(both.piece(280), "");
  EXPECT_EQ(both.eos_token(), std::optional<TokenId>(259));
  Json bare = valid_json();
  bare.erase("added_tokens");
  const Tokenizer only_config = load(bare, config);
  EXPECT_EQ(only_config.encode("ab<|far|>", AddedTokens::kAllow), (std::vector<TokenId>{256, 300}));
  const Tokenizer none = load(bare);
  EXPECT_EQ(none.size(), 259U);
  EXPECT_EQ(none.eos_token(), std::nullopt);
}

TEST(TokenizerFile, TheConfigDecidesWhetherATokenIsSpecial) {
  const Json config = {{"added_tokens_decoder", {{"260", {{"content", "<think>"}, {"special", true}}}}}};
  EXPECT_FALSE(load(valid_json()).is_special(260));
  EXPECT_TRUE(load(valid_json(), config).is_special(260));
}

TEST(TokenizerFile, EosMayBeATextAnObjectNullOrAnOrdinaryToken) {
  EXPECT_EQ(load(valid_json(), {{"eos_token", {{"content", "<|end|>"}}}}).eos_token(), std::optional<TokenId>(259));
  EXPECT_EQ(load(valid_json(), {{"eos_token", nullptr}}).eos_token(), std::nullopt);
  EXPECT_EQ(load(valid_json(), {{"eos_token", "ab"}}).eos_token(), std::optional<TokenId>(256));
  EXPECT_EQ(load(valid_json(), Json::object()).eos_token(), std::nullopt);
  EXPECT_SAYS(refusal_of_config({{"eos_token", "<|nowhere|>"}}), "<|nowhere|>");
  EXPECT_SAYS(refusal_of_config({{"eos_token", 5}}), "eos_token is 5");
  EXPECT_SAYS(refusal_of_config({{"eos_token", Json::object()}}), "eos_token");
}

TEST(TokenizerFile, TokensOutsideTheByteMapStandForThemselves) {
  Json json = valid_json();
  json["model"]["vocab"]["\u65E5 x"] = 261;
  EXPECT_EQ(load(json).piece(261), "\u65E5 x");
}

TEST(TokenizerFile, AMissingFileIsNamed) {
  const auto folder = synthetic::write_model_folder("lily_file_test", "{}", "");
  std::filesystem::remove(folder / "tokenizer.json");
  try {
    Tokenizer::load(folder);
    FAIL() << "loaded a folder without a tokenizer";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTokenizer);
    EXPECT_SAYS(error.what(), "tokenizer.json");
  }
}

TEST(TokenizerFile, EveryTruncationIsRefused) {
  const std::string whole = valid_json().dump();
  for (size_t length = 0; length < whole.size(); length += 97) {
    EXPECT_SAYS(refusal_of_text(whole.substr(0, length), "", "/tokenizer.json"), "expected JSON");
  }
  EXPECT_SAYS(refusal_of_text(whole, R"({"eos_token": "<|e)", "/tokenizer_config.json"), "expected JSON");
}

TEST(TokenizerFile, OtherKindsOfTokenizerAreRefusedByName) {
  EXPECT_SAYS(refusal_of_text("[]", "", "/tokenizer.json"), "expected an object");
  EXPECT_SAYS(refusal_of([](Json& j) { j.erase("model"); }), "model is missing");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["type"] = "Unigram"; }), "\"Unigram\", expected one of type BPE");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"].erase("type"); }), "expected one of type BPE");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["byte_fallback"] = true; }), "byte_fallback");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["ignore_merges"] = true; }), "ignore_merges");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["ignore_merges"] = "no"; }), "ignore_merges");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["dropout"] = 0.1; }), "dropout");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }), "</w>");
  EXPECT_SAYS(refusal_of([](Json& j) { j["normalizer"] = nullptr; }), "normalizer");
  EXPECT_SAYS(refusal_of([](Json& j) { j["normalizer"]["type"] = "NFKC"; }), "NFKC");
  EXPECT_SAYS(refusal_of([](Json& j) { j["decoder"]["type"] = "WordPiece"; }), "WordPiece");
  EXPECT_SAYS(refusal_of([](Json& j) { j["post_processor"]["type"] = "TemplateProcessing"; }), "TemplateProcessing");
  EXPECT_SAYS(refusal_of([](Json& j) {
                j["pre_tokenizer"] = {{"type", "ByteLevel"}};
              }),
              "expected one of type Sequence");
  EXPECT_SAYS(refusal_of([](Json& j) { j["pre_tokenizer"]["pretokenizers"].erase(1); }), "1 steps");
  EXPECT_SAYS(refusal_of([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+"; }),
              "\\\\w+");
  EXPECT_SAYS(refusal_of([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }), "Removed");
  EXPECT_SAYS(refusal_of([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["invert"] = true; }), "invert true");
  EXPECT_SAYS(refusal_of([](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }),
              "add_prefix_space");
  EXPECT_SAYS(refusal_of([](Json& j) { j["pre_tokenizer"]["pretokenizers"][1].erase("use_regex"); }), "use_regex");
}

TEST(TokenizerFile, NullAndAbsentModelOptionsAreTheDefaults) {
  Json json = valid_json();
  for (const char* key :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"}) {
    json["model"][key] = nullptr;
  }
  json["post_processor"] = nullptr;
  EXPECT_EQ(load(json).size(), 261U);
  for (const char* key :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"}) {
    json["model"].erase(key);
  }
  json.erase("post_processor");
  EXPECT_EQ(load(json).size(), 261U);
}

TEST(TokenizerFile, BrokenVocabulariesAreRefused) {
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["vocab"] = Json::array(); }), "vocab is array");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["vocab"]["ab"] = -1; }), "the id of token \"ab\" is -1");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["vocab"]["ab"] = 1.5; }), "1.5");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["vocab"]["ab"] = "256"; }), "\"256\"");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["vocab"]["ab"] = 18446744073709551615ULL; }), "18446744073709551615");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["vocab"]["ab"] = 4294967296ULL + 256; }), "4294967552");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["vocab"]["ab"] = 257; }), "id 257 to two tokens");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["vocab"]["far"] = 1000; }), "no token has id 261");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["vocab"][""] = 261; }), "empty token");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["vocab"].erase("!"); }), "no token for byte 0x21");
}

TEST(TokenizerFile, BrokenMergesAreRefused) {
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"].erase("merges"); }), "merges is missing");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["merges"][1] = {"a", "nowhere"}; }), "merge 1 names \"nowhere\"");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["merges"][1] = {"b", "a"}; }), "merge 1 names \"ba\"");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["merges"][2] = "cd"; }), "merge 2 is \"cd\"");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["merges"][2] = "c "; }), "merge 2");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["merges"][2] = " d"; }), "merge 2");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["merges"][2] = "c d e"; }), "merge 2");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["merges"][0] = {"a", "b", "c"}; }), "merge 0 is an array");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["merges"][0] = {"a", 5}; }), "merge 0");
  EXPECT_SAYS(refusal_of([](Json& j) { j["model"]["merges"][0] = 7; }), "merge 0 is 7");
}

TEST(TokenizerFile, BrokenAddedTokensAreRefused) {
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"] = 3; }), "added_tokens is number");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0] = "x"; }), "added_tokens is \"x\"");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0]["id"] = 4194304; }), "4194304");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0].erase("id"); }), "null");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0]["content"] = ""; }), "content");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0].erase("content"); }), "content");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0]["lstrip"] = true; }), "lstrip");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0]["normalized"] = true; }), "normalized");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0]["special"] = 1; }), "special");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0]["id"] = 260; }), "id 260 twice");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0]["id"] = 256; }), "model.vocab");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][0]["content"] = "ab"; }), "model.vocab");
  EXPECT_SAYS(refusal_of([](Json& j) { j["added_tokens"][1]["content"] = "<|end|>"; }), "expected 259 as given before");
}

TEST(TokenizerFile, TheTwoFilesMustAgreeOnAddedTokens) {
  const auto with = [](const char* id, const Json& token) {
    return refusal_of_config({{"added_tokens_decoder", {{id, token}}}});
  };
  EXPECT_SAYS(with("259", {{"content", "<|other|>"}}), "\"<|end|>\" has too");
  EXPECT_SAYS(with("400", {{"content", "<|end|>"}}), "expected 259");
  EXPECT_SAYS(with("256", {{"content", "<|new|>"}}), "model.vocab");
  EXPECT_SAYS(with("4194304", {{"content", "<|new|>"}}), "4194304");
  EXPECT_SAYS(with("99999999999999999999", {{"content", "<|new|>"}}), "99999999999999999999");
  EXPECT_SAYS(with("-1", {{"content", "<|new|>"}}), "-1");
  EXPECT_SAYS(with("12x", {{"content", "<|new|>"}}), "12x");
  EXPECT_SAYS(with("261", {{"content", 5}}), "content");
  EXPECT_SAYS(with("261", "text"), "content");
  EXPECT_SAYS(refusal_of_config({{"added_tokens_decoder", Json::array()}}), "added_tokens_decoder is array");
}

TEST(TokenizerFile, DeepNestingIsNoDanger) {
  constexpr size_t kDepth = 200000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  const std::string whole = valid_json().dump();
  EXPECT_SAYS(refusal_of_text(whole, R"({"eos_token": )" + deep + "}", "/tokenizer_config.json"),
              "eos_token is an array");
  EXPECT_SAYS(refusal_of_text(R"({"model": )" + deep + "}", "", "/tokenizer.json"), "model is array");
  EXPECT_SAYS(refusal_of_text(R"({"model": {"type": )" + deep + "}}", "", "/tokenizer.json"), "model is an array");
}

TEST(TokenizerFile, AVocabularyOfFullSizeLoads) {
  // As many entries as the 35B model has, all reachable by merges; the last ones checked by hand.
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::string> symbols;
  for (char c = 'a'; c <= 'z'; ++c) {
    symbols.emplace_back(1, c);
  }
  constexpr size_t kCount = 247788;
  for (size_t at = 0; merges.size() < kCount; ++at) {
    for (char c = 'a'; c <= 'z' && merges.size() < kCount; ++c) {
      merges.emplace_back(symbols[at], std::string(1, c));
      symbols.push_back(symbols[at] + c);
    }
  }
  const Tokenizer tokenizer = load(synthetic::make_tokenizer_json(merges, {"<|end|>"}));
  EXPECT_EQ(tokenizer.size(), 248045U);
  EXPECT_EQ(tokenizer.find_added("<|end|>"), std::optional<TokenId>(248044));
  EXPECT_EQ(tokenizer.piece(248043), symbols.back());
  EXPECT_EQ(tokenizer.encode("abc", AddedTokens::kAllow).size(), 1U);
}

}  // namespace
}  // namespace lily
