#include "model/json_fields.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "base/mapped_file.h"

namespace lily {
namespace {

constexpr size_t kMaxJsonBytes = size_t{64} << 20;  // an index of a large model is about 1 MB
constexpr int kMaxDepth = 32;
constexpr size_t kShownLength = 60;

}  // namespace

nlohmann::json parse_json_object(const std::filesystem::path& path, ErrorCode code) {
  const std::string file = path.filename().string();
  const std::string text = read_file(path, kMaxJsonBytes);
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kMaxDepth) {
      throw Error(code, "{}: nested deeper than {} levels", file, kMaxDepth);
    }
    if (event == Event::object_start) {
      keys.emplace_back();
    } else if (event == Event::object_end) {
      keys.pop_back();
    } else if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw Error(code, "{}: the key {} appears twice in one object", file, shown(parsed));
    }
    return true;
  };
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(code, "{} is not valid JSON: broken at byte {} of {}", path.string(), std::min(error.byte, text.size()),
                text.size());
  } catch (const nlohmann::json::out_of_range&) {
    throw Error(code, "{} is not valid JSON: it holds a number out of range", path.string());
  }
  if (!json.is_object()) {
    throw Error(code, "{} holds {}, expected a JSON object", path.string(), shown(json));
  }
  return json;
}

std::string shown(const nlohmann::json& value) {
  // Containers can be huge; their size says enough.
  if (value.is_object()) {
    return fmt::format("an object of {} keys", value.size());
  }
  if (value.is_array() && value.size() > 8) {
    return fmt::format("a list of {} items", value.size());
  }
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  for (char& c : text) {
    c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  if (text.size() > kShownLength) {
    text.resize(kShownLength);
    text += "...";
  }
  return text.empty() ? "an empty string" : text;
}

Fields::Fields(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {}

const nlohmann::json* Fields::find(std::string_view key) const {
  const auto it = object_->find(key);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

std::optional<Fields> Fields::object(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_object()) {
    refuse(key, "an object");
  }
  return Fields(*value, fmt::format("{}: {}", where_, key));
}

std::optional<uint32_t> Fields::find_uint(std::string_view key, uint32_t low, uint32_t high) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number_unsigned() || value->get<uint64_t>() < low || value->get<uint64_t>() > high) {
    refuse(key, low == high ? fmt::format("{}", low) : fmt::format("an integer from {} to {}", low, high));
  }
  return value->get<uint32_t>();
}

std::optional<double> Fields::find_number(std::string_view key, double low, double high) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    refuse(key, fmt::format("a number from {:g} to {:g}", low, high));
  }
  return number;
}

std::optional<bool> Fields::find_bool(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_boolean()) {
    refuse(key, "true or false");
  }
  return value->get<bool>();
}

std::optional<std::string> Fields::find_string(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    refuse(key, "a string");
  }
  return value->get<std::string>();
}

uint32_t Fields::uint(std::string_view key, uint32_t low, uint32_t high) const {
  const std::optional<uint32_t> value = find_uint(key, low, high);
  if (!value) {
    throw Error(ErrorCode::kConfig, "{}: {} is missing", where_, key);
  }
  return *value;
}

void Fields::refuse(std::string_view key, std::string_view expected) const {
  const nlohmann::json* value = find(key);
  throw Error(ErrorCode::kConfig, "{}: {} is {}, expected {}", where_, key,
              value == nullptr ? "missing" : shown(*value), expected);
}

}  // namespace lily
