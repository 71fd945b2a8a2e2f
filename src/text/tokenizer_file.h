// Reads tokenizer.json and tokenizer_config.json into plain tables, and refuses what the tokenizer would not reproduce
// exactly.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/bpe.h"

namespace lily {

/// A token outside byte-pair encoding; its content is literal text.
struct AddedToken {
  TokenId id;
  std::string content;
  bool special;  // left out of text when special tokens are skipped
};

struct TokenizerFile {
  std::vector<std::string> pieces;    // raw bytes by id; empty where an id has no token
  std::array<TokenId, 256> byte_ids;  // token of every single byte
  std::vector<MergeRule> merges;      // in order of priority
  std::vector<AddedToken> added;      // by id
  std::optional<TokenId> eos;
};

/// Reads <model_folder>/tokenizer.json and, where present, tokenizer_config.json.
/// Throws Error(kTokenizer) that names the file, what was expected and what was found.
TokenizerFile read_tokenizer_files(const std::filesystem::path& model_folder);

}  // namespace lily
