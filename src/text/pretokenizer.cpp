#include "text/pretokenizer.h"

#include <array>

namespace lily {
namespace {

constexpr std::array<CharClass, 128> kAsciiClass = [] {
  std::array<CharClass, 128> classes{};
  for (size_t c = 'a'; c <= 'z'; ++c) {
    classes[c] = CharClass::kLetter;
    classes[c - 'a' + 'A'] = CharClass::kLetter;
  }
  for (size_t c = '0'; c <= '9'; ++c) {
    classes[c] = CharClass::kNumber;
  }
  for (const size_t c : {0x09U, 0x0BU, 0x0CU, 0x20U}) {
    classes[c] = CharClass::kSpace;
  }
  classes['\r'] = CharClass::kNewline;
  classes['\n'] = CharClass::kNewline;
  return classes;
}();

bool is_word(CharClass c) {
  return c == CharClass::kLetter || c == CharClass::kMark;
}

char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

Pretokenizer::Seen Pretokenizer::look(size_t at) const {
  if (at >= text_.size()) {
    return {CharClass::kOther, 0};
  }
  const auto byte = static_cast<unsigned char>(text_[at]);
  if (byte < 0x80) {
    return {kAsciiClass[byte], 1};
  }
  const DecodedChar next = decode_utf8(text_, at);
  return {table_.char_class(next.code), next.length};
}

size_t Pretokenizer::skip_word(size_t at) const {
  for (Seen next = look(at); is_word(next.char_class); next = look(at)) {
    at += next.length;
  }
  return at;
}

size_t Pretokenizer::skip_other(size_t at) const {
  for (Seen next = look(at); next.length != 0 && next.char_class == CharClass::kOther; next = look(at)) {
    at += next.length;
  }
  return at;
}

size_t Pretokenizer::skip_newlines(size_t at) const {
  while (at < text_.size() && (text_[at] == '\r' || text_[at] == '\n')) {
    ++at;
  }
  return at;
}

// 's 't 're 've 'm 'll 'd without regard to case; 0 when none stands here. U+017F folds to s.
size_t Pretokenizer::contraction_length(size_t start) const {
  const std::string_view rest = text_.substr(start + 1, 2);
  if (rest.empty()) {
    return 0;
  }
  const char first = ascii_lower(rest[0]);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') {
    return 2;
  }
  if (rest.size() < 2) {
    return 0;
  }
  const char second = ascii_lower(rest[1]);
  const bool pair =
      (second == 'e' && (first == 'r' || first == 'v')) || (first == 'l' && second == 'l') || rest == "\u017F";
  return pair ? 3 : 0;
}

// The last three alternatives, at a whitespace character that no word and no punctuation takes: up to the last newline
// of the run; else, where more text follows, all but the last character, which is left for that text; else the whole
// run.
size_t Pretokenizer::end_of_space(size_t start) const {
  size_t after_newline = start;
  size_t last = start;
  size_t at = start;
  for (Seen next = look(at); next.char_class == CharClass::kSpace || next.char_class == CharClass::kNewline;
       next = look(at)) {
    last = at;
    at += next.length;
    if (next.char_class == CharClass::kNewline) {
      after_newline = at;
    }
  }
  if (after_newline > start) {
    return after_newline;
  }
  return at == text_.size() || last == start ? at : last;
}

size_t Pretokenizer::end_of_piece(size_t start) const {
  const Seen first = look(start);
  const size_t second = start + first.length;
  switch (first.char_class) {
    case CharClass::kLetter:
    case CharClass::kMark:
      return skip_word(second);
    case CharClass::kNumber:
      return second;
    case CharClass::kNewline:
      return end_of_space(start);
    case CharClass::kSpace: {
      const Seen next = look(second);
      if (is_word(next.char_class)) {
        return skip_word(second + next.length);
      }
      if (text_[start] == ' ' && next.length != 0 && next.char_class == CharClass::kOther) {
        return skip_newlines(skip_other(second + next.length));
      }
      return end_of_space(start);
    }
    case CharClass::kOther:
      break;
  }
  if (text_[start] == '\'') {
    if (const size_t length = contraction_length(start); length != 0) {
      return start + length;
    }
  }
  if (is_word(look(second).char_class)) {
    return skip_word(second);
  }
  return skip_newlines(skip_other(second));
}

}  // namespace lily
