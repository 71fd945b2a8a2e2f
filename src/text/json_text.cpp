#include "text/json_text.h"

#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include <array>
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/unicode.h"

namespace lily {
namespace {

constexpr uint64_t kBigIntegerSubtype = 0x1b16;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Recursive descent over the text; every parse_* returns false after it has set `failure_`.
class JsonParser {
 public:
  JsonParser(std::string_view text, size_t max_depth) : text_(text), max_depth_(max_depth) {}

  Result<ordered_json> run() {
    ordered_json value;
    skip_space();
    if (!parse_value(value, 0)) return failure_;
    skip_space();
    if (pos_ < text_.size()) {
      fail("expected the end of the text");
      return failure_;
    }
    return value;
  }

 private:
  using Members = std::vector<std::pair<std::string, ordered_json>>;

  bool fail(std::string_view expected) {
    std::string found = "the end of the text";
    if (pos_ < text_.size()) {
      const size_t length = valid_length();
      const auto byte = static_cast<unsigned char>(text_[pos_]);
      const bool printable = length > 0 && byte >= 0x20 && byte != 0x7f;
      found = printable ? fmt::format("'{}'", text_.substr(pos_, length)) : fmt::format("byte 0x{:02x}", byte);
    }
    failure_ = invalid("JSON, byte {}: {}, found {}", pos_, expected, found);
    return false;
  }

  /// Bytes of the character at the position, 0 when it is broken.
  size_t valid_length() const {
    const DecodedChar next = decode_utf8(text_, pos_);
    return next.status == Utf8Status::kValid ? next.length : 0;
  }

  void skip_space() {
    while (pos_ < text_.size() &&
           (text_[pos_] == ' ' || text_[pos_] == '\n' || text_[pos_] == '\t' || text_[pos_] == '\r')) {
      ++pos_;
    }
  }

  bool at(char c) const { return pos_ < text_.size() && text_[pos_] == c; }

  bool parse_value(ordered_json& out, size_t depth) {
    if (pos_ >= text_.size()) return fail("expected a value");
    switch (text_[pos_]) {
      case '{':
        return parse_object(out, depth + 1);
      case '[':
        return parse_array(out, depth + 1);
      case '"': {
        std::string text;
        if (!parse_string(text)) return false;
        out = std::move(text);
        return true;
      }
      case 't':
        return parse_word("true", out, true);
      case 'f':
        return parse_word("false", out, false);
      case 'n':
        return parse_word("null", out, nullptr);
      default:
        return parse_number(out);
    }
  }

  bool parse_word(std::string_view word, ordered_json& out, ordered_json value) {
    if (text_.substr(pos_, word.size()) != word) return fail("expected a value");
    pos_ += word.size();
    out = std::move(value);
    return true;
  }

  bool check_depth(size_t depth) {
    if (depth <= max_depth_) return true;
    return fail(fmt::format("expected at most {} nested arrays and objects", max_depth_));
  }

  bool parse_array(ordered_json& out, size_t depth) {
    if (!check_depth(depth)) return false;
    ordered_json::array_t items;
    ++pos_;
    skip_space();
    if (at(']')) {
      ++pos_;
      out = std::move(items);
      return true;
    }
    for (;;) {
      skip_space();
      items.emplace_back();
      if (!parse_value(items.back(), depth)) return false;
      skip_space();
      if (at(']')) break;
      if (!at(',')) return fail("expected ',' or ']'");
      ++pos_;
    }
    ++pos_;
    out = std::move(items);
    return true;
  }

  bool parse_object(ordered_json& out, size_t depth) {
    if (!check_depth(depth)) return false;
    Members members;
    std::unordered_map<std::string, size_t> index;  // used only once a scan of the keys would be slow
    ++pos_;
    skip_space();
    while (!at('}')) {
      if (!members.empty()) {
        if (!at(',')) return fail("expected ',' or '}'");
        ++pos_;
        skip_space();
      }
      if (!at('"')) return fail(members.empty() ? "expected a quoted key or '}'" : "expected a quoted key");
      std::string key;
      if (!parse_string(key)) return false;
      skip_space();
      if (!at(':')) return fail("expected ':'");
      ++pos_;
      skip_space();
      ordered_json value;
      if (!parse_value(value, depth)) return false;
      place(members, index, std::move(key), std::move(value));
      skip_space();
    }
    ++pos_;
    // ordered_json's own insertion looks through all keys each time; these are unique already.
    ordered_json::object_t object;
    object.reserve(members.size());
    for (auto& [key, value] : members) object.Container::emplace_back(std::move(key), std::move(value));
    out = std::move(object);
    return true;
  }

  static void place(Members& members, std::unordered_map<std::string, size_t>& index, std::string key,
                    ordered_json value) {
    constexpr size_t kScanLimit = 16;
    if (members.size() < kScanLimit) {
      for (auto& member : members) {
        if (member.first == key) {
          member.second = std::move(value);
          return;
        }
      }
    } else {
      if (index.empty()) {
        for (size_t i = 0; i < members.size(); ++i) index.emplace(members[i].first, i);
      }
      const auto [found, added] = index.emplace(key, members.size());
      if (!added) {
        members[found->second].second = std::move(value);
        return;
      }
    }
    members.emplace_back(std::move(key), std::move(value));
  }

  bool parse_string(std::string& out) {
    ++pos_;
    for (;;) {
      const size_t begin = pos_;
      while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\\') {
        const auto byte = static_cast<unsigned char>(text_[pos_]);
        if (byte < 0x20) return fail("expected control characters in strings to be escaped");
        const size_t length = byte < 0x80 ? 1 : valid_length();
        if (length == 0) return fail("expected valid UTF-8");
        pos_ += length;
      }
      out.append(text_.substr(begin, pos_ - begin));
      if (pos_ >= text_.size()) return fail("expected '\"' at the end of a string");
      if (text_[pos_++] == '"') return true;
      if (!parse_escape(out)) return false;
    }
  }

  bool parse_escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    if (pos_ < text_.size()) {
      const size_t which = kNames.find(text_[pos_]);
      if (which != std::string_view::npos) {
        out.push_back(kValues[which]);
        ++pos_;
        return true;
      }
    }
    if (!at('u')) return fail(R"(expected one of " \ / b f n r t u after '\')");
    std::optional<uint32_t> unit = hex_unit();
    if (!unit) return fail("expected \\u and four hex digits");
    if (*unit >= 0xd800 && *unit < 0xdc00 && text_.substr(pos_, 2) == "\\u") {
      ++pos_;
      const std::optional<uint32_t> low = hex_unit();
      if (low && *low >= 0xdc00 && *low < 0xe000) {
        append_utf8(out, static_cast<char32_t>(0x10000 + ((*unit - 0xd800) << 10) + (*low - 0xdc00)));
        return true;
      }
    }
    if (*unit >= 0xd800 && *unit < 0xe000) return fail("expected escaped surrogates in pairs");
    append_utf8(out, static_cast<char32_t>(*unit));
    return true;
  }

  /// Reads u and four hex digits at the position; leaves the position alone when they are not there.
  std::optional<uint32_t> hex_unit() {
    if (pos_ + 5 > text_.size()) return std::nullopt;
    uint32_t unit = 0;
    const char* begin = text_.data() + pos_ + 1;
    const auto [end, error] = std::from_chars(begin, begin + 4, unit, 16);
    if (error != std::errc() || end != begin + 4) return std::nullopt;
    pos_ += 5;
    return unit;
  }

  size_t skip_digits() {
    const size_t begin = pos_;
    while (pos_ < text_.size() && is_digit(text_[pos_])) ++pos_;
    return pos_ - begin;
  }

  bool parse_number(ordered_json& out) {
    const size_t begin = pos_;
    if (at('-')) ++pos_;
    if (at('0')) {
      ++pos_;
    } else if (skip_digits() == 0) {
      pos_ = begin;
      return fail("expected a value");
    }
    bool integer = true;
    if (at('.')) {
      integer = false;
      ++pos_;
      if (skip_digits() == 0) return fail("expected a digit after '.'");
    }
    if (at('e') || at('E')) {
      integer = false;
      ++pos_;
      if (at('+') || at('-')) ++pos_;
      if (skip_digits() == 0) return fail("expected a digit in the exponent");
    }
    const std::string_view token = text_.substr(begin, pos_ - begin);
    if (integer) {
      out = integer_from_digits(token);
      return true;
    }
    const std::optional<double> value = to_double(token);
    if (!value) {
      pos_ = begin;
      return fail("expected a number within the range of a double");
    }
    out = *value;
    return true;
  }

  /// Nothing when the value overflows; a value too small becomes a signed zero, as in Python.
  static std::optional<double> to_double(std::string_view token) {
#ifdef __cpp_lib_to_chars
    double value = 0;
    if (std::from_chars(token.data(), token.data() + token.size(), value).ec == std::errc()) return value;
#endif
    // Out of range, and which end of it; or all numbers, where the library reads no floats.
    static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
    const double rounded = strtod_l(std::string(token).c_str(), nullptr, c_locale);
    return std::isinf(rounded) ? std::nullopt : std::optional(rounded);
  }

  std::string_view text_;
  size_t max_depth_;
  size_t pos_ = 0;
  Failure failure_;
};

struct JsonStyle {
  std::string_view item_separator;
  std::string_view key_separator;
  bool python_words;  // NaN and Infinity as Python spells them
};

void append_string(std::string& out, std::string_view text) {
  out.push_back('"');
  size_t plain = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text.substr(plain, i - plain));
    plain = i + 1;
    constexpr std::string_view kValues = "\"\\\b\f\n\r\t";
    constexpr std::string_view kNames = "\"\\bfnrt";
    const size_t which = kValues.find(c);
    if (which != std::string_view::npos) {
      out.push_back('\\');
      out.push_back(kNames[which]);
    } else {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  out.append(text.substr(plain));
  out.push_back('"');
}

void append_float(std::string& out, double value, const JsonStyle& style) {
  if (std::isfinite(value)) {
    out += python_float(value);
  } else if (!style.python_words) {
    out += "null";
  } else if (std::isnan(value)) {
    out += "NaN";
  } else {
    out += value < 0 ? "-Infinity" : "Infinity";
  }
}

void append_value(std::string& out, const ordered_json& value, const JsonStyle& style) {
  switch (value.type()) {
    case ordered_json::value_t::object: {
      std::string_view separator = "{";
      for (const auto& [key, member] : value.get_ref<const ordered_json::object_t&>()) {
        out += separator;
        separator = style.item_separator;
        append_string(out, key);
        out += style.key_separator;
        append_value(out, member, style);
      }
      out += value.empty() ? "{}" : "}";
      return;
    }
    case ordered_json::value_t::array: {
      std::string_view separator = "[";
      for (const ordered_json& item : value) {
        out += separator;
        separator = style.item_separator;
        append_value(out, item, style);
      }
      out += value.empty() ? "[]" : "]";
      return;
    }
    case ordered_json::value_t::string:
      append_string(out, value.get_ref<const std::string&>());
      return;
    case ordered_json::value_t::boolean:
      out += value.get<bool>() ? "true" : "false";
      return;
    case ordered_json::value_t::number_integer:
      out += fmt::to_string(value.get<int64_t>());
      return;
    case ordered_json::value_t::number_unsigned:
      out += fmt::to_string(value.get<uint64_t>());
      return;
    case ordered_json::value_t::number_float:
      append_float(out, value.get<double>(), style);
      return;
    case ordered_json::value_t::binary: {
      LILY_CHECK(is_big_integer(value), "a binary value of an unknown kind in JSON");
      const auto& digits = value.get_binary();
      out.append(digits.begin(), digits.end());
      return;
    }
    case ordered_json::value_t::null:
    case ordered_json::value_t::discarded:
      out += "null";
      return;
  }
}

}  // namespace

Result<ordered_json> parse_json(std::string_view text, size_t max_depth) {
  return JsonParser(text, max_depth).run();
}

std::string python_json(const ordered_json& value) {
  std::string out;
  append_value(out, value, {.item_separator = ", ", .key_separator = ": ", .python_words = true});
  return out;
}

std::string compact_json(const ordered_json& value) {
  std::string out;
  append_value(out, value, {.item_separator = ",", .key_separator = ":", .python_words = false});
  return out;
}

ordered_json integer_from_digits(std::string_view digits) {
  const bool negative = !digits.empty() && digits.front() == '-';
  std::string_view magnitude = digits.substr(negative ? 1 : 0);
  while (magnitude.size() > 1 && magnitude.front() == '0') magnitude.remove_prefix(1);
  LILY_CHECK(!magnitude.empty() && is_digit(magnitude.front()), "no digits in the integer '{}'", digits);
  uint64_t small = 0;
  const auto result = std::from_chars(magnitude.data(), magnitude.data() + magnitude.size(), small);
  constexpr uint64_t kInt64Limit = uint64_t{1} << 63;
  if (result.ec == std::errc()) {
    if (!negative && small < kInt64Limit) return static_cast<int64_t>(small);
    if (!negative) return small;
    if (small <= kInt64Limit) return static_cast<int64_t>(0 - small);
  }
  std::vector<uint8_t> kept;
  if (negative) kept.push_back('-');
  kept.insert(kept.end(), magnitude.begin(), magnitude.end());
  return ordered_json::binary(std::move(kept), kBigIntegerSubtype);
}

bool is_big_integer(const ordered_json& value) {
  return value.is_binary() && value.get_binary().has_subtype() && value.get_binary().subtype() == kBigIntegerSubtype;
}

bool is_integer(const ordered_json& value) {
  return value.is_number_integer() || is_big_integer(value);
}

double shortest_double(float value) {
  if (!std::isfinite(value)) return static_cast<double>(value);
  std::array<char, 40> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size() - 1, value);
  return parse_json(std::string_view(buffer.data(), static_cast<size_t>(written.ptr - buffer.data())))
      .value()
      .get<double>();
}

std::string python_float(double value) {
  // Shortest digits that read back equal, as d.ddde±xx; Python moves the point itself for exponents -4 to 15.
  std::array<char, 40> buffer{};
  const auto written =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<size_t>(written.ptr - buffer.data()));
  const size_t exponent_at = text.find('e');
  LILY_CHECK(exponent_at != std::string_view::npos, "python_float of a value that is not finite");
  std::string digits;
  for (const char c : text.substr(0, exponent_at)) {
    if (is_digit(c)) digits.push_back(c);
  }
  int exponent = 0;
  const char* exponent_text = text.data() + exponent_at + 1;
  if (*exponent_text == '+') ++exponent_text;
  std::from_chars(exponent_text, text.data() + text.size(), exponent);

  const std::string sign = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    const std::string fraction = digits.size() > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", sign, digits[0], fraction, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent) - 1, '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace lily
