#include "text/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "text/pretokenizer.h"
#include "text/unicode.h"

namespace lily {

// Word caches waiting for the next call of encode. A call has one to itself, so threads meet only when they take and
// return it.
class Tokenizer::CachePool {
 public:
  std::unique_ptr<WordCache> take() {
    {
      const std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<WordCache> cache = std::move(idle_.back());
        idle_.pop_back();
        return cache;
      }
    }
    return std::make_unique<WordCache>();
  }

  void give_back(std::unique_ptr<WordCache> cache) {
    const std::scoped_lock lock(mutex_);
    if (idle_.size() < kMaxIdle) {
      idle_.push_back(std::move(cache));
    }
  }

 private:
  static constexpr size_t kMaxIdle = 8;  // 2 MiB each

  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> idle_;
};

Tokenizer::Tokenizer(TokenizerFile file)
    : bpe_(file.byte_ids, file.merges),
      kinds_(file.pieces.size(), Kind::kPlain),
      eos_(file.eos),
      caches_(std::make_unique<CachePool>()) {
  piece_ends_.reserve(file.pieces.size());
  for (const std::string& piece : file.pieces) {
    bytes_ += piece;
    piece_ends_.push_back(bytes_.size());
  }
  for (AddedToken& token : file.added) {
    kinds_[token.id] = token.special ? Kind::kSpecial : Kind::kAdded;
    added_ids_.emplace(token.content, token.id);
    added_by_first_byte_[static_cast<unsigned char>(token.content[0])].push_back(std::move(token));
  }
  for (std::vector<AddedToken>& tokens : added_by_first_byte_) {
    std::sort(tokens.begin(), tokens.end(),
              [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
  }
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&& other) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&& other) noexcept = default;

Tokenizer Tokenizer::load(const std::filesystem::path& model_folder) {
  return Tokenizer(read_tokenizer_files(model_folder));
}

std::string_view Tokenizer::piece(TokenId id) const {
  if (id >= piece_ends_.size()) {
    return {};
  }
  const size_t begin = id == 0 ? 0 : piece_ends_[id - 1];
  return std::string_view(bytes_).substr(begin, piece_ends_[id] - begin);
}

std::optional<TokenId> Tokenizer::find_added(std::string_view content) const {
  const auto found = added_ids_.find(std::string(content));
  return found == added_ids_.end() ? std::nullopt : std::optional(found->second);
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string bytes;
  for (const TokenId id : ids) {
    bytes += piece(id);
  }
  return replace_invalid_utf8(bytes);
}

// The leftmost added token, the longest of those that start there.
std::optional<Tokenizer::AddedMatch> Tokenizer::next_added(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    for (const AddedToken& token : added_by_first_byte_[static_cast<unsigned char>(text[at])]) {
      if (text.substr(at).starts_with(token.content)) {
        return AddedMatch{at, at + token.content.size(), token.id};
      }
    }
  }
  return std::nullopt;
}

void Tokenizer::encode_plain(std::string_view text, WordCache& cache, std::vector<TokenId>& out) const {
  std::string storage;
  Pretokenizer pieces(normalize_nfc(text, storage));
  for (std::string_view piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    bpe_.encode(piece, cache, out);
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, AddedTokens added) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = replace_invalid_utf8(text);
    text = repaired;
  }
  std::vector<TokenId> ids;
  ids.reserve((text.size() / 4) + 1);
  std::unique_ptr<WordCache> cache = caches_->take();
  size_t done = 0;
  if (added == AddedTokens::kAllow) {
    while (const std::optional<AddedMatch> match = next_added(text, done)) {
      encode_plain(text.substr(done, match->begin - done), *cache, ids);
      ids.push_back(match->id);
      done = match->end;
    }
  }
  encode_plain(text.substr(done), *cache, ids);
  caches_->give_back(std::move(cache));
  return ids;
}

}  // namespace lily
