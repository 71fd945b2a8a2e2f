#include "text/argument_types.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/python_text.h"

namespace lily {
namespace {

enum class Kind { kString, kInteger, kNumber, kBoolean, kObject, kArray, kNull };

std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return lower;
}

/// JSON schema's names, and the spellings of other languages that occur in hand-written schemas. Unknown names are
/// strings.
Kind kind_named(std::string_view type_name) {
  const std::string name = lower_ascii(type_name);
  const auto starts = [&](std::initializer_list<std::string_view> prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
  };
  if (name == "null" || name == "none") return Kind::kNull;
  if (starts({"int", "uint", "long", "short", "unsigned"})) return Kind::kInteger;
  if (starts({"num", "float", "double"})) return Kind::kNumber;
  if (starts({"bool"})) return Kind::kBoolean;
  if (starts({"object", "dict", "map"})) return Kind::kObject;
  if (starts({"array", "list", "tuple"})) return Kind::kArray;
  return Kind::kString;
}

Kind kind_of(const ordered_json& value) {
  if (value.is_null()) return Kind::kNull;
  if (value.is_boolean()) return Kind::kBoolean;
  if (is_integer(value)) return Kind::kInteger;
  if (value.is_number()) return Kind::kNumber;
  if (value.is_object()) return Kind::kObject;
  if (value.is_array()) return Kind::kArray;
  return Kind::kString;
}

const ordered_json* member(const ordered_json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(key));
  return found == object.end() ? nullptr : &*found;
}

/// Follows a local JSON pointer, "#/$defs/name"; null when it leads nowhere.
const ordered_json* resolve(std::string_view reference, const ordered_json& root) {
  if (!reference.starts_with('#')) return nullptr;
  const ordered_json* at = &root;
  std::string_view rest = reference.substr(1);
  while (at != nullptr && !rest.empty()) {
    if (rest.front() != '/') return nullptr;
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    std::string key;
    for (size_t i = 0; i < end; ++i) {
      const bool escaped = rest[i] == '~' && i + 1 < end;
      key.push_back(!escaped ? rest[i] : rest[++i] == '1' ? '/' : '~');
    }
    at = member(*at, key);
    rest.remove_prefix(end);
  }
  return at;
}

/// Collects the alternatives of a schema. The budget bounds the work on wide or cyclic schemas.
class Alternatives {
 public:
  explicit Alternatives(const ordered_json& root) : root_(root) {}

  void collect(const ordered_json* schema) {
    if (schema == nullptr || !schema->is_object() || budget_ == 0 || depth_ == kMaxDepth) return;
    --budget_;
    ++depth_;
    visit(*schema);
    --depth_;
  }

  bool has(Kind kind) const { return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end(); }
  const std::vector<Kind>& kinds() const { return kinds_; }
  /// Values of an enum or const that stands without a type.
  const std::vector<const ordered_json*>& members() const { return members_; }

 private:
  static constexpr size_t kMaxDepth = 8;
  static constexpr size_t kMaxVisits = 256;

  void add(Kind kind) {
    if (!has(kind)) kinds_.push_back(kind);
  }

  void visit(const ordered_json& schema) {
    const ordered_json* reference = member(schema, "$ref");
    if (reference != nullptr && reference->is_string()) {
      collect(resolve(reference->get_ref<const std::string&>(), root_));
    }
    const ordered_json* type = member(schema, "type");
    if (type != nullptr && type->is_string()) add(kind_named(type->get_ref<const std::string&>()));
    if (type != nullptr && type->is_array()) {
      for (const ordered_json& name : *type) {
        if (name.is_string()) add(kind_named(name.get_ref<const std::string&>()));
      }
    }
    for (const char* key : {"anyOf", "oneOf", "allOf"}) {
      const ordered_json* list = member(schema, key);
      if (list == nullptr || !list->is_array()) continue;
      for (const ordered_json& alternative : *list) collect(&alternative);
    }
    if (type == nullptr) visit_untyped(schema);
    const ordered_json* nullable = member(schema, "nullable");
    if (nullable != nullptr && nullable->is_boolean() && nullable->get<bool>()) add(Kind::kNull);
  }

  void visit_untyped(const ordered_json& schema) {
    const ordered_json* values = member(schema, "enum");
    if (values != nullptr && values->is_array()) {
      for (const ordered_json& value : *values) members_.push_back(&value);
    }
    const ordered_json* constant = member(schema, "const");
    if (constant != nullptr) members_.push_back(constant);
    if (member(schema, "properties") != nullptr) add(Kind::kObject);
    if (member(schema, "items") != nullptr) add(Kind::kArray);
  }

  const ordered_json& root_;
  std::vector<Kind> kinds_;
  std::vector<const ordered_json*> members_;
  size_t budget_ = kMaxVisits;
  size_t depth_ = 0;
};

std::optional<ordered_json> as_number(std::string_view text) {
  std::string_view token = python_strip(text);
  if (token.starts_with('+')) token.remove_prefix(1);
  Result<ordered_json> value = parse_json(token, 0);
  if (!value || (!value.value().is_number() && !is_big_integer(value.value()))) return std::nullopt;
  return std::move(value).value();
}

std::optional<ordered_json> as_integer(std::string_view text) {
  std::string_view token = python_strip(text);
  if (token.starts_with('+')) token.remove_prefix(1);
  // Digits, perhaps with a fraction of zeros: all digits are kept, however many.
  std::string_view digits = token.substr(0, token.find('.'));
  const std::string_view fraction = token.substr(digits.size());
  const std::string_view magnitude = digits.substr(digits.starts_with('-') ? 1 : 0);
  const bool zeros = fraction.find_first_not_of('0', 1) == std::string_view::npos && fraction != ".";
  if (!magnitude.empty() && magnitude.find_first_not_of("0123456789") == std::string_view::npos && zeros) {
    return integer_from_digits(digits);
  }
  const std::optional<ordered_json> number = as_number(token);
  if (!number || !number->is_number_float()) return std::nullopt;
  const double value = number->get<double>();
  constexpr double kExactLimit =
      9007199254740992.0;  // 2^53: beyond it a double no longer tells which integer was meant
  if (std::trunc(value) != value || std::abs(value) > kExactLimit) return std::nullopt;
  return ordered_json(static_cast<int64_t>(value));
}

std::optional<ordered_json> as_boolean(std::string_view text) {
  const std::string_view token = python_strip(text);
  if (token.size() > 5) return std::nullopt;
  const std::string word = lower_ascii(token);
  if (word == "true") return ordered_json(true);
  if (word == "false") return ordered_json(false);
  return std::nullopt;
}

std::optional<ordered_json> as_structure(std::string_view text, Kind kind) {
  const std::string_view token = python_strip(text);
  Result<ordered_json> json = parse_json(token);
  if (json && kind_of(json.value()) == kind) return std::move(json).value();
  std::optional<ordered_json> literal = parse_python_literal(token);
  if (literal && kind_of(*literal) == kind) return literal;
  return std::nullopt;
}

std::optional<ordered_json> fit(std::string_view text, Kind kind) {
  switch (kind) {
    case Kind::kString:
      return ordered_json(std::string(text));
    case Kind::kInteger:
      return as_integer(text);
    case Kind::kNumber:
      return as_number(text);
    case Kind::kBoolean:
      return as_boolean(text);
    case Kind::kObject:
    case Kind::kArray:
      return as_structure(text, kind);
    case Kind::kNull:
      return std::nullopt;  // decided before the others
  }
  return std::nullopt;
}

}  // namespace

ordered_json coerce_argument(std::string_view text, const ordered_json* schema, const ordered_json& root) {
  Alternatives alternatives(root);
  alternatives.collect(schema);
  if (alternatives.has(Kind::kNull) && text == "null") return nullptr;
  for (const ordered_json* value : alternatives.members()) {
    const bool spelled =
        value->is_string() ? value->get_ref<const std::string&>() == text : compact_json(*value) == python_strip(text);
    if (spelled) return *value;
  }
  for (const Kind kind : alternatives.kinds()) {
    if (std::optional<ordered_json> value = fit(text, kind)) return *std::move(value);
  }
  return std::string(text);
}

}  // namespace lily
