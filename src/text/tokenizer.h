// The tokenizer of a model folder: text to token ids and back. Owns added tokens and the order of the encoding steps;
// leaves files to tokenizer_file, splitting to pretokenizer, merging to bpe, and text that arrives token by token to
// stream_decoder.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/bpe.h"
#include "text/tokenizer_file.h"

namespace lily {

/// Whether the spelling of an added token (`<|im_end|>`, `<think>`) in a text becomes that token or stays ordinary
/// text.
enum class AddedTokens { kAllow, kForbid };

/// Immutable once loaded; every const member may be called from any number of threads.
class Tokenizer {
 public:
  /// Reads tokenizer.json and, where present, tokenizer_config.json. Throws Error(kTokenizer) naming the file and the
  /// reason.
  static Tokenizer load(const std::filesystem::path& model_folder);

  explicit Tokenizer(TokenizerFile file);
  ~Tokenizer();
  Tokenizer(Tokenizer&& other) noexcept;
  Tokenizer& operator=(Tokenizer&& other) noexcept;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Ids of the text; nothing is put before or after. Invalid UTF-8 counts as U+FFFD.
  std::vector<TokenId> encode(std::string_view text, AddedTokens added) const;

  /// The text of the ids; bytes that form no valid UTF-8 become U+FFFD.
  std::string decode(std::span<const TokenId> ids) const;

  /// The raw bytes of a token, maybe a part of a character; empty for ids without a token. Lives as long as the
  /// tokenizer.
  std::string_view piece(TokenId id) const;

  bool is_added(TokenId id) const { return kind(id) != Kind::kPlain; }
  /// Whether the token is left out of text when special tokens are skipped.
  bool is_special(TokenId id) const { return kind(id) == Kind::kSpecial; }
  /// The added token spelt exactly like this.
  std::optional<TokenId> find_added(std::string_view content) const;

  /// One past the largest id that has a token.
  size_t size() const { return kinds_.size(); }
  /// eos_token of tokenizer_config.json.
  std::optional<TokenId> eos_token() const { return eos_; }

 private:
  class CachePool;
  enum class Kind : uint8_t { kPlain, kAdded, kSpecial };
  struct AddedMatch {
    size_t begin;
    size_t end;
    TokenId id;
  };

  Kind kind(TokenId id) const { return id < kinds_.size() ? kinds_[id] : Kind::kPlain; }
  std::optional<AddedMatch> next_added(std::string_view text, size_t from) const;
  void encode_plain(std::string_view text, WordCache& cache, std::vector<TokenId>& out) const;

  Bpe bpe_;
  std::string bytes_;               // all pieces, one after the other
  std::vector<size_t> piece_ends_;  // in bytes_, by id
  std::vector<Kind> kinds_;
  std::array<std::vector<AddedToken>, 256> added_by_first_byte_;  // longest content first
  std::unordered_map<std::string, TokenId> added_ids_;
  std::optional<TokenId> eos_;
  std::unique_ptr<CachePool> caches_;
};

}  // namespace lily
