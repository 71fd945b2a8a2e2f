#include "text/tokenizer_file.h"

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/mapped_file.h"
#include "text/pretokenizer.h"
#include "text/unicode.h"

namespace lily {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{256} << 20U;
// Far above any vocabulary of the family; bounds the tables a broken file can ask for.
constexpr TokenId kMaxTokens = 1U << 22U;

// A JSON file under its name, so that every complaint says where.
class Document {
 public:
  explicit Document(const std::filesystem::path& path) : name_(path.string()) {
    try {
      root_ = Json::parse(read_file(path, kMaxFileBytes));
    } catch (const Error& error) {
      throw Error(ErrorCode::kTokenizer, "{}", error.what());
    } catch (const Json::parse_error& error) {
      throw Error(ErrorCode::kTokenizer, "{}: expected JSON, found an error at byte {}", name_, error.byte);
    } catch (const Json::exception& error) {
      throw Error(ErrorCode::kTokenizer, "{}: expected JSON, found: {}", name_, error.what());
    }
    if (!root_.is_object()) {
      refuse("expected an object, found {}", root_.type_name());
    }
  }

  const Json& root() const { return root_; }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorCode::kTokenizer, "{}: {}", name_, fmt::format(format, std::forward<Args>(args)...));
  }

  // The member, or null when it is absent.
  static const Json& member(const Json& object, const char* key) {
    static const Json null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
  }

  const Json& object_member(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (!value.is_object()) {
      refuse("{} is {}, expected an object", key, value.is_null() ? "missing" : value.type_name());
    }
    return value;
  }

  const Json& array_member(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (!value.is_array()) {
      refuse("{} is {}, expected an array", key, value.is_null() ? "missing" : value.type_name());
    }
    return value;
  }

  // A flag that may be absent or null, both meaning false.
  bool flag(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (!value.is_null() && !value.is_boolean()) {
      refuse("{} is {}, expected true or false", key, value.type_name());
    }
    return value.is_boolean() && value.get<bool>();
  }

  void expect_type(const Json& object, std::string_view where, std::string_view type) const {
    if (!object.is_object() || member(object, "type") != type) {
      refuse("{} is {}, expected one of type {}", where, shown(object.is_object() ? member(object, "type") : object),
             type);
    }
  }

  // A value for a message; arrays and objects by name only, as they may be deep enough to exhaust the stack of the
  // writer.
  static std::string shown(const Json& value) {
    if (value.is_structured()) {
      return value.is_array() ? "an array" : "an object";
    }
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    constexpr size_t kLongest = 200;
    return text.size() <= kLongest ? text : replace_invalid_utf8(std::string_view(text).substr(0, kLongest)) + "...";
  }

 private:
  std::string name_;
  Json root_;
};

// The GPT-2 byte map: printable Latin-1 stands for itself, the other 68 bytes in order for U+0100 and on.
constexpr size_t kMapEnd = 0x144;
constexpr std::array<char32_t, 256> kCodeOfByte = [] {
  std::array<char32_t, 256> code_of{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < code_of.size(); ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    code_of[byte] = printable ? byte : next++;
  }
  return code_of;
}();
constexpr std::array<int16_t, kMapEnd> kByteOfCode = [] {
  std::array<int16_t, kMapEnd> byte_of{};
  byte_of.fill(-1);
  for (size_t byte = 0; byte < kCodeOfByte.size(); ++byte) {
    byte_of[kCodeOfByte[byte]] = static_cast<int16_t>(byte);
  }
  return byte_of;
}();

// The bytes a vocabulary entry stands for. One that strays from the byte map stands for its own UTF-8, as the reference
// decoder has it.
std::string mapped_bytes(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const DecodedChar next = decode_utf8(token, at);
    if (next.code >= kMapEnd || kByteOfCode[next.code] < 0) {
      return std::string(token);
    }
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(kByteOfCode[next.code])));
    at += next.length;
  }
  return bytes;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& folder) : tokenizer_(folder / "tokenizer.json") {
    check_pipeline();
    read_vocabulary();
    read_added_tokens();
    read_merges();
    const std::filesystem::path config = folder / "tokenizer_config.json";
    std::optional<Document> config_document;
    std::error_code ignored;
    if (std::filesystem::exists(config, ignored)) {
      config_document.emplace(config);
      read_added_tokens_decoder(*config_document);
    }
    finish_added_tokens();
    check_contiguous();
    if (config_document) {
      read_eos(*config_document);
    }
  }

  TokenizerFile take() { return std::move(file_); }

 private:
  void check_pipeline() const;
  void check_pretokenizer() const;
  void read_vocabulary();
  void read_added_tokens();
  void read_added_tokens_decoder(const Document& config);
  void read_merges();
  void read_eos(const Document& config);
  void finish_added_tokens();
  void check_contiguous() const;
  void add(const Document& document, TokenId id, const Json& token);
  TokenId checked_id(const Document& document, const Json& value, std::string_view token) const;
  TokenId id_of(std::string_view token, size_t merge_index) const;

  Document tokenizer_;
  std::unordered_map<std::string_view, TokenId> ids_;  // keys live in tokenizer_
  std::vector<bool> taken_;                            // ids of the vocabulary
  std::map<TokenId, AddedToken> added_;
  std::unordered_map<std::string, TokenId> added_ids_;
  TokenizerFile file_{};
};

void Reader::check_pipeline() const {
  const Json& model = tokenizer_.object_member(tokenizer_.root(), "model");
  tokenizer_.expect_type(model, "model", "BPE");
  for (const char* key : {"byte_fallback", "ignore_merges"}) {
    if (tokenizer_.flag(model, key)) {
      tokenizer_.refuse("model.{} is true, expected false", key);
    }
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& value = Document::member(model, key);
    if (!value.is_null() && !(value.is_string() && value.get_ref<const std::string&>().empty())) {
      tokenizer_.refuse("model.{} is {}, expected none", key, Document::shown(value));
    }
  }
  if (const Json& dropout = Document::member(model, "dropout"); !dropout.is_null() && dropout != 0.0) {
    tokenizer_.refuse("model.dropout is {}, expected none", Document::shown(dropout));
  }
  tokenizer_.expect_type(Document::member(tokenizer_.root(), "normalizer"), "normalizer", "NFC");
  tokenizer_.expect_type(Document::member(tokenizer_.root(), "decoder"), "decoder", "ByteLevel");
  if (const Json& post = Document::member(tokenizer_.root(), "post_processor"); !post.is_null()) {
    tokenizer_.expect_type(post, "post_processor", "ByteLevel");
  }
  check_pretokenizer();
}

void Reader::check_pretokenizer() const {
  const Json& pre = Document::member(tokenizer_.root(), "pre_tokenizer");
  tokenizer_.expect_type(pre, "pre_tokenizer", "Sequence");
  const Json& steps = tokenizer_.array_member(pre, "pretokenizers");
  if (steps.size() != 2) {
    tokenizer_.refuse("pre_tokenizer has {} steps, expected Split and ByteLevel", steps.size());
  }
  const Json& split = steps[0];
  tokenizer_.expect_type(split, "the first pre_tokenizer", "Split");
  const Json& regex = Document::member(tokenizer_.object_member(split, "pattern"), "Regex");
  if (regex != kPretokenizerRegex) {
    tokenizer_.refuse("the pre_tokenizer splits by {}, expected {}", Document::shown(regex),
                      Document::shown(Json(kPretokenizerRegex)));
  }
  if (Document::member(split, "behavior") != "Isolated" || tokenizer_.flag(split, "invert")) {
    tokenizer_.refuse("the pre_tokenizer split has behavior {} and invert {}, expected \"Isolated\" and false",
                      Document::shown(Document::member(split, "behavior")), tokenizer_.flag(split, "invert"));
  }
  const Json& byte_level = steps[1];
  tokenizer_.expect_type(byte_level, "the second pre_tokenizer", "ByteLevel");
  for (const char* key : {"add_prefix_space", "use_regex"}) {
    const Json& value = Document::member(byte_level, key);
    if (value != false) {
      tokenizer_.refuse("{} of the ByteLevel pre_tokenizer is {}, expected false", key, Document::shown(value));
    }
  }
}

TokenId Reader::checked_id(const Document& document, const Json& value, std::string_view token) const {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMaxTokens) {
    document.refuse("the id of token {} is {}, expected a whole number below {}", Document::shown(Json(token)),
                    Document::shown(value), kMaxTokens);
  }
  return value.get<TokenId>();
}

void Reader::read_vocabulary() {
  const Json& vocabulary = tokenizer_.object_member(tokenizer_.object_member(tokenizer_.root(), "model"), "vocab");
  ids_.reserve(vocabulary.size());
  file_.pieces.reserve(vocabulary.size());
  for (auto entry = vocabulary.begin(); entry != vocabulary.end(); ++entry) {
    const std::string& token = entry.key();
    const TokenId id = checked_id(tokenizer_, entry.value(), token);
    if (token.empty()) {
      tokenizer_.refuse("model.vocab gives id {} to an empty token", id);
    }
    if (id >= file_.pieces.size()) {
      file_.pieces.resize(id + 1U);
      taken_.resize(id + 1U);
    }
    if (taken_[id]) {
      tokenizer_.refuse("model.vocab gives id {} to two tokens, one of them {}", id, Document::shown(Json(token)));
    }
    taken_[id] = true;
    ids_.emplace(token, id);
    file_.pieces[id] = mapped_bytes(token);
  }
  std::string spelling;
  for (size_t byte = 0; byte < kCodeOfByte.size(); ++byte) {
    spelling.clear();
    append_utf8(spelling, kCodeOfByte[byte]);
    const auto found = ids_.find(spelling);
    if (found == ids_.end()) {
      tokenizer_.refuse("model.vocab has no token for byte 0x{:02X}, expected all 256", byte);
    }
    file_.byte_ids[byte] = found->second;
  }
}

TokenId Reader::id_of(std::string_view token, size_t merge_index) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) {
    tokenizer_.refuse("merge {} names {}, which is not in model.vocab", merge_index, Document::shown(Json(token)));
  }
  return found->second;
}

void Reader::read_merges() {
  const Json& merges = tokenizer_.array_member(tokenizer_.object_member(tokenizer_.root(), "model"), "merges");
  file_.merges.reserve(merges.size());
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    std::string_view left;
    std::string_view right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get_ref<const std::string&>();
      right = merge[1].get_ref<const std::string&>();
    } else if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space != std::string_view::npos) {
        left = text.substr(0, space);
        right = text.substr(space + 1);
      }
    }
    if (left.empty() || right.empty()) {
      tokenizer_.refuse("merge {} is {}, expected two tokens", i, Document::shown(merge));
    }
    joined.assign(left).append(right);
    file_.merges.push_back({id_of(left, i), id_of(right, i), id_of(joined, i)});
  }
}

void Reader::add(const Document& document, TokenId id, const Json& token) {
  const Json& content = token.is_object() ? Document::member(token, "content") : token;
  if (!token.is_object() || !content.is_string() || content.get_ref<const std::string&>().empty()) {
    document.refuse("the content of added token {} is {}, expected a text", id, Document::shown(content));
  }
  const auto& text = content.get_ref<const std::string&>();
  for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) {
    if (document.flag(token, key)) {
      document.refuse("added token {} has {} true, expected false", Document::shown(content), key);
    }
  }
  if (const auto found = ids_.find(text);
      found != ids_.end() ? found->second != id : id < taken_.size() && taken_[id]) {
    document.refuse("added token {} has id {}, which does not agree with model.vocab", Document::shown(content), id);
  }
  const auto [known, is_new_text] = added_ids_.try_emplace(text, id);
  if (!is_new_text && known->second != id) {
    document.refuse("added token {} has id {}, expected {} as given before", Document::shown(content), id,
                    known->second);
  }
  const auto place = added_.find(id);
  if (place != added_.end() && place->second.content != text) {
    document.refuse("added token {} has id {}, which {} has too", Document::shown(content), id,
                    Document::shown(Json(place->second.content)));
  }
  // Both files may list a token; whether it is special is then for the later one, tokenizer_config.json, to say.
  added_.insert_or_assign(id, AddedToken{id, text, document.flag(token, "special")});
}

void Reader::read_added_tokens() {
  if (Document::member(tokenizer_.root(), "added_tokens").is_null()) {
    return;
  }
  for (const Json& token : tokenizer_.array_member(tokenizer_.root(), "added_tokens")) {
    if (!token.is_object()) {
      tokenizer_.refuse("an entry of added_tokens is {}, expected an object", Document::shown(token));
    }
    const Json& content = Document::member(token, "content");
    const TokenId id =
        checked_id(tokenizer_, Document::member(token, "id"), content.is_string() ? content.get<std::string>() : "");
    if (added_.contains(id)) {
      tokenizer_.refuse("added_tokens lists id {} twice", id);
    }
    add(tokenizer_, id, token);
  }
}

void Reader::read_added_tokens_decoder(const Document& config) {
  if (Document::member(config.root(), "added_tokens_decoder").is_null()) {
    return;
  }
  const Json& decoder = config.object_member(config.root(), "added_tokens_decoder");
  for (auto entry = decoder.begin(); entry != decoder.end(); ++entry) {
    const std::string& key = entry.key();
    TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id >= kMaxTokens) {
      config.refuse("added_tokens_decoder has the id {}, expected a whole number below {}", Document::shown(Json(key)),
                    kMaxTokens);
    }
    add(config, id, entry.value());
  }
}

void Reader::finish_added_tokens() {
  if (!added_.empty() && added_.rbegin()->first >= file_.pieces.size()) {
    file_.pieces.resize(added_.rbegin()->first + 1U);
  }
  file_.added.reserve(added_.size());
  for (auto& [id, token] : added_) {
    file_.pieces[id] = token.content;
    file_.added.push_back(std::move(token));
  }
}

// Padding rows lie above all tokens; a hole in the vocabulary means that entries were lost.
void Reader::check_contiguous() const {
  for (TokenId id = 0; id < taken_.size(); ++id) {
    if (!taken_[id] && !added_.contains(id)) {
      tokenizer_.refuse("no token has id {}, expected model.vocab to leave no hole below its largest id {}", id,
                        taken_.size() - 1);
    }
  }
}

void Reader::read_eos(const Document& config) {
  const Json& eos = Document::member(config.root(), "eos_token");
  const Json& content = eos.is_object() ? Document::member(eos, "content") : eos;
  if (content.is_null() && !eos.is_object()) {
    return;
  }
  if (!content.is_string()) {
    config.refuse("eos_token is {}, expected a text", Document::shown(eos));
  }
  const auto& text = content.get_ref<const std::string&>();
  if (const auto added = added_ids_.find(text); added != added_ids_.end()) {
    file_.eos = added->second;
  } else if (const auto plain = ids_.find(text); plain != ids_.end()) {
    file_.eos = plain->second;
  } else {
    config.refuse("eos_token is {}, which is no token", Document::shown(eos));
  }
}

}  // namespace

TokenizerFile read_tokenizer_files(const std::filesystem::path& model_folder) {
  return Reader(model_folder).take();
}

}  // namespace lily
