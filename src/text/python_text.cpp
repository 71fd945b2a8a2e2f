#include "text/python_text.h"

#include <array>
#include <charconv>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/unicode.h"

namespace lily {
namespace {

bool is_ascii_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}

/// The white space characters outside ASCII, in UTF-8.
constexpr std::array<std::string_view, 19> kWideSpaces = {
    "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83",
    "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a",
    "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class LiteralParser {
 public:
  LiteralParser(std::string_view text, size_t max_depth) : text_(text), max_depth_(max_depth) {}

  std::optional<ordered_json> run() {
    ordered_json value;
    if (!parse_value(value, 0)) return std::nullopt;
    skip_space();
    if (pos_ < text_.size()) return std::nullopt;
    return value;
  }

 private:
  void skip_space() {
    while (pos_ < text_.size() && is_ascii_space(text_[pos_])) ++pos_;
  }
  bool at(char c) const { return pos_ < text_.size() && text_[pos_] == c; }
  bool take(char c) {
    skip_space();
    if (!at(c)) return false;
    ++pos_;
    return true;
  }

  bool parse_value(ordered_json& out, size_t depth) {
    skip_space();
    if (pos_ >= text_.size() || depth > max_depth_) return false;
    const char c = text_[pos_];
    if (c == '[') return parse_sequence(out, ']', depth + 1);
    if (c == '(') return parse_sequence(out, ')', depth + 1);
    if (c == '{') return parse_dict(out, depth + 1);
    if (c == '\'' || c == '"') {
      std::string text;
      if (!parse_string(text)) return false;
      out = std::move(text);
      return true;
    }
    if (is_digit(c) || c == '-' || c == '+' || c == '.') return parse_number(out);
    return parse_word(out);
  }

  bool parse_word(ordered_json& out) {
    size_t end = pos_;
    while (end < text_.size() && ((text_[end] | 0x20) >= 'a' && (text_[end] | 0x20) <= 'z')) ++end;
    const std::string_view word = text_.substr(pos_, end - pos_);
    pos_ = end;
    if (word == "None" || word == "null") {
      out = nullptr;
    } else if (word == "True" || word == "true") {
      out = true;
    } else if (word == "False" || word == "false") {
      out = false;
    } else {
      return false;
    }
    return true;
  }

  /// A list, or between parentheses a tuple or just a value: (1) is 1, (1,) and () are tuples.
  bool parse_sequence(ordered_json& out, char closer, size_t depth) {
    ordered_json::array_t items;
    bool comma = false;
    ++pos_;
    while (!take(closer)) {
      if (!items.empty() && !comma) return false;
      items.emplace_back();
      if (!parse_value(items.back(), depth)) return false;
      comma = take(',');
    }
    if (depth > max_depth_) return false;
    if (closer == ')' && items.size() == 1 && !comma) {
      ordered_json single = std::move(items.front());
      out = std::move(single);
    } else {
      out = std::move(items);
    }
    return true;
  }

  bool parse_dict(ordered_json& out, size_t depth) {
    if (depth > max_depth_) return false;
    std::vector<std::pair<std::string, ordered_json>> members;
    std::unordered_map<std::string, size_t> index;
    bool comma = true;
    ++pos_;
    while (!take('}')) {
      ordered_json key;
      ordered_json value;
      if (!comma || !parse_value(key, max_depth_) || key.is_structured()) return false;
      if (!take(':') || !parse_value(value, depth)) return false;
      std::string name = key.is_string() ? key.get<std::string>() : compact_json(key);
      const auto [found, added] = index.emplace(name, members.size());
      if (added) {
        members.emplace_back(std::move(name), std::move(value));
      } else {
        members[found->second].second = std::move(value);
      }
      comma = take(',');
    }
    ordered_json::object_t object;
    object.reserve(members.size());
    for (auto& [name, value] : members) object.Container::emplace_back(std::move(name), std::move(value));
    out = std::move(object);
    return true;
  }

  bool parse_number(ordered_json& out) {
    size_t end = pos_;
    while (end < text_.size()) {
      const char c = text_[end];
      const bool sign = (c == '-' || c == '+') && (end == pos_ || (text_[end - 1] | 0x20) == 'e');
      if (!is_digit(c) && c != '.' && (c | 0x20) != 'e' && !sign) break;
      ++end;
    }
    std::string_view token = text_.substr(pos_, end - pos_);
    pos_ = end;
    if (token.starts_with('+')) token.remove_prefix(1);
    std::string spelled(token);  // JSON wants digits on both sides of the point
    const size_t point = spelled.find('.');
    if (point != std::string::npos) {
      const bool digits_before = point > 0 && is_digit(spelled[point - 1]);
      const bool digits_after = point + 1 < spelled.size() && is_digit(spelled[point + 1]);
      if (!digits_before && !digits_after) return false;
      if (!digits_after) spelled.insert(point + 1, "0");
      if (!digits_before) spelled.insert(point, "0");
    }
    Result<ordered_json> number = parse_json(spelled, 0);
    if (!number) return false;
    out = std::move(number).value();
    return true;
  }

  bool parse_string(std::string& out) {
    const char quote = text_[pos_++];
    for (;;) {
      const size_t end = text_.find_first_of(quote == '"' ? "\"\\\n" : "'\\\n", pos_);
      if (end == std::string_view::npos || text_[end] == '\n') return false;
      out.append(text_.substr(pos_, end - pos_));
      pos_ = end + 1;
      if (text_[end] == quote) return true;
      if (!parse_escape(out)) return false;
    }
  }

  bool parse_escape(std::string& out) {
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
    if (pos_ >= text_.size()) return false;
    const char c = text_[pos_++];
    const size_t which = kNames.find(c);
    if (which != std::string_view::npos) {
      out.push_back(kValues[which]);
      return true;
    }
    if (c == '\n') return true;  // a line continued
    if (c == 'x') return parse_code_point(out, 2);
    if (c == 'u') return parse_code_point(out, 4);
    if (c == 'U') return parse_code_point(out, 8);
    if (c >= '0' && c <= '7') {
      auto value = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2 && pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '7'; ++i) {
        value = value * 8 + static_cast<uint32_t>(text_[pos_++] - '0');
      }
      append_utf8(out, static_cast<char32_t>(value));
      return true;
    }
    out.push_back('\\');  // an unknown escape stands for itself
    out.push_back(c);
    return true;
  }

  bool parse_code_point(std::string& out, size_t digits) {
    if (pos_ + digits > text_.size()) return false;
    uint32_t value = 0;
    const char* begin = text_.data() + pos_;
    const auto [end, error] = std::from_chars(begin, begin + digits, value, 16);
    if (error != std::errc() || end != begin + digits) return false;
    pos_ += digits;
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return false;
    append_utf8(out, static_cast<char32_t>(value));
    return true;
  }

  std::string_view text_;
  size_t max_depth_;
  size_t pos_ = 0;
};

}  // namespace

std::string_view python_strip(std::string_view text) {
  const auto strip_front = [&] {
    if (text.empty()) return false;
    if (is_ascii_space(text.front())) {
      text.remove_prefix(1);
      return true;
    }
    for (const std::string_view space : kWideSpaces) {
      if (text.starts_with(space)) {
        text.remove_prefix(space.size());
        return true;
      }
    }
    return false;
  };
  const auto strip_back = [&] {
    if (text.empty()) return false;
    if (is_ascii_space(text.back())) {
      text.remove_suffix(1);
      return true;
    }
    for (const std::string_view space : kWideSpaces) {
      if (text.ends_with(space)) {
        text.remove_suffix(space.size());
        return true;
      }
    }
    return false;
  };
  while (strip_front()) {
  }
  while (strip_back()) {
  }
  return text;
}

std::optional<ordered_json> parse_python_literal(std::string_view text, size_t max_depth) {
  return LiteralParser(text, max_depth).run();
}

}  // namespace lily
