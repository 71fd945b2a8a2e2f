#include "tests/unit/text/synthetic_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "text/pretokenizer.h"
#include "text/unicode.h"

namespace lily::synthetic {
namespace {

char32_t mapped_code(unsigned byte) {
  // The three printable ranges stand for themselves; the gaps 0-32, 127-160 and 173 follow one another from U+0100 on.
  if (byte <= 32) {
    return 0x100 + byte;
  }
  if (byte >= 127 && byte <= 160) {
    return 0x100 + 33 + (byte - 127);
  }
  return byte == 173 ? char32_t{0x143} : char32_t{byte};
}

}  // namespace

std::string spell(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    append_utf8(out, mapped_code(static_cast<unsigned char>(c)));
  }
  return out;
}

Json make_tokenizer_json(const std::vector<std::pair<std::string, std::string>>& merges,
                         const std::vector<std::string>& added) {
  std::map<char32_t, std::string> bytes;
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes[mapped_code(byte)] = spell(std::string(1, static_cast<char>(static_cast<unsigned char>(byte))));
  }
  Json vocab = Json::object();
  TokenId next = 0;
  for (const auto& [code, spelling] : bytes) {
    vocab[spelling] = next++;
  }
  Json merge_list = Json::array();
  for (const auto& [left, right] : merges) {
    merge_list.push_back({spell(left), spell(right)});
    const std::string result = spell(left + right);
    if (!vocab.contains(result)) {
      vocab[result] = next++;
    }
  }
  Json added_list = Json::array();
  for (const std::string& content : added) {
    added_list.push_back({{"id", next++},
                          {"content", content},
                          {"single_word", false},
                          {"lstrip", false},
                          {"rstrip", false},
                          {"normalized", false},
                          {"special", content.starts_with("<|")}});
  }
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kPretokenizerRegex}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  Json json;
  json["version"] = "1.0";
  json["added_tokens"] = added_list;
  json["normalizer"] = {{"type", "NFC"}};
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level})}};
  json["post_processor"] = byte_level;
  json["decoder"] = byte_level;
  json["model"] = {
      {"type", "BPE"},         {"dropout", nullptr},       {"unk_token", nullptr}, {"continuing_subword_prefix", ""},
      {"vocab", vocab},        {"end_of_word_suffix", ""}, {"fuse_unk", false},    {"byte_fallback", false},
      {"ignore_merges", false}};
  json["model"]["merges"] = merge_list;
  return json;
}

std::filesystem::path write_model_folder(const std::string& name, const std::string& tokenizer_json,
                                         const std::string& config_json) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json", std::ios::binary) << tokenizer_json;
  if (!config_json.empty()) {
    std::ofstream(folder / "tokenizer_config.json", std::ios::binary) << config_json;
  }
  return folder;
}

NaiveBpe::NaiveBpe(const Json& tokenizer_json) {
  for (const auto& [token, id] : tokenizer_json.at("model").at("vocab").items()) {
    vocab_[token] = id.get<TokenId>();
  }
  for (const Json& merge : tokenizer_json.at("model").at("merges")) {
    ranks_.emplace(std::pair(merge.at(0).get<std::string>(), merge.at(1).get<std::string>()), ranks_.size());
  }
}

std::vector<TokenId> NaiveBpe::encode(std::string_view piece) const {
  std::vector<std::string> symbols;
  for (const char c : piece) {
    symbols.push_back(spell(std::string_view(&c, 1)));
  }
  while (true) {
    size_t best = symbols.size();
    size_t best_rank = ranks_.size();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks_.find({symbols[i], symbols[i + 1]});
      if (found != ranks_.end() && found->second < best_rank) {
        best = i;
        best_rank = found->second;
      }
    }
    if (best == symbols.size()) {
      break;
    }
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<TokenId> ids;
  for (const std::string& symbol : symbols) {
    ids.push_back(vocab_.at(symbol));
  }
  return ids;
}

}  // namespace lily::synthetic
