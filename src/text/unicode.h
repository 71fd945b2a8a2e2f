// UTF-8 decoding, the character classes of the pre-tokenizer and NFC.
// Owns how invalid bytes become U+FFFD (one a maximal ill-formed subpart, as Python's and Rust's lossy decoders do).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lily {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

enum class Utf8Status : uint8_t {
  kValid,
  kInvalid,     // bytes that no continuation could make valid
  kIncomplete,  // the text ends inside a sequence that is valid so far
};

/// One step of decoding: `length` bytes (at least 1) that stand for `code`, U+FFFD unless kValid.
struct DecodedChar {
  char32_t code;
  uint32_t length;
  Utf8Status status;
};

/// Decodes the character that starts at text[at]; at < text.size().
DecodedChar decode_utf8(std::string_view text, size_t at);

/// Appends a code point as UTF-8; one that is no Unicode scalar value is appended as U+FFFD.
void append_utf8(std::string& out, char32_t code);

bool is_valid_utf8(std::string_view text);

/// Appends `bytes` with invalid ones replaced by U+FFFD, up to an incomplete sequence at the end, which is left out.
/// Returns how many bytes were consumed: all but at most three.
size_t append_complete_utf8(std::string_view bytes, std::string& out);

/// The text with every invalid or incomplete sequence replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view bytes);

/// What the pre-tokenizer tells apart. kSpace and kNewline together are the regex class \s, kNewline is \r and \n.
enum class CharClass : uint8_t { kOther, kLetter, kMark, kNumber, kSpace, kNewline };

/// Properties of every code point, compiled once from utf8proc into a two-level table.
class UnicodeTable {
 public:
  static const UnicodeTable& get();

  CharClass char_class(char32_t code) const { return static_cast<CharClass>(entry(code) >> kClassShift & 7U); }
  uint8_t combining_class(char32_t code) const { return static_cast<uint8_t>(entry(code) & 0xFFU); }
  /// Whether the character may change under NFC, alone or together with what stands before it.
  bool may_compose(char32_t code) const { return (entry(code) & kMayCompose) != 0; }

 private:
  static constexpr uint32_t kClassShift = 8;
  static constexpr uint32_t kMayCompose = 1U << 11U;
  static constexpr size_t kBlock = 256;
  static constexpr size_t kCodes = 0x110000;

  UnicodeTable();
  uint32_t entry(char32_t code) const { return entries_[(block_of_[code / kBlock] * kBlock) + (code % kBlock)]; }

  std::array<uint16_t, kCodes / kBlock> block_of_{};
  std::vector<uint16_t> entries_;  // bits 0..7 combining class, 8..10 CharClass, 11 may_compose
};

/// NFC of valid UTF-8 in linear time. Returns `text` itself when it is already normal, else a view of `storage`.
std::string_view normalize_nfc(std::string_view text, std::string& storage);

}  // namespace lily
