// Tokenizer files made up for tests, and an independent byte-pair encoder to compare with: plain string pairs, no
// tables, no cache.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/bpe.h"

namespace lily::synthetic {

using Json = nlohmann::json;

/// The byte map spelling of raw bytes.
std::string spell(std::string_view bytes);

/// A full tokenizer.json: the 256 bytes, in the order of their spelling's code points, then a token for the result of
/// every merge, then the added tokens. Merges are given in raw bytes.
Json make_tokenizer_json(const std::vector<std::pair<std::string, std::string>>& merges,
                         const std::vector<std::string>& added);

/// A folder below the test's temporary folder, emptied and filled with the two files; no tokenizer_config.json where it
/// is empty.
std::filesystem::path write_model_folder(const std::string& name, const std::string& tokenizer_json,
                                         const std::string& config_json);

/// Byte-pair encoding by the book, one piece at a time. Quadratic.
class NaiveBpe {
 public:
  explicit NaiveBpe(const Json& tokenizer_json);
  std::vector<TokenId> encode(std::string_view piece) const;

 private:
  std::map<std::string, TokenId> vocab_;
  std::map<std::pair<std::string, std::string>, size_t> ranks_;
};

}  // namespace lily::synthetic
