// Small JSON files read with suspicion: bounded size and depth, no key twice, and typed access that names the key and
// the value it did not like. Serves config.cpp and checkpoint.cpp; nothing outside this folder includes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace lily {

/// Parses the JSON object in `path`. Throws Error(code) when it is broken, nested deeper than 32, or names a key twice.
nlohmann::json parse_json_object(const std::filesystem::path& path, ErrorCode code);

/// A value as it appears in messages: dumped and cut to a readable length.
std::string shown(const nlohmann::json& value);

/// Typed reading of one object of a JSON file. null counts as absent. Throws Error(kConfig) that begins with the place
/// of the key.
class Fields {
 public:
  /// `where` is the place in messages: "config.json" or "config.json: text_config". The object must outlive this.
  Fields(const nlohmann::json& object, std::string where);

  const nlohmann::json* find(std::string_view key) const;
  std::optional<Fields> object(std::string_view key) const;

  std::optional<uint32_t> find_uint(std::string_view key, uint32_t low, uint32_t high) const;
  std::optional<double> find_number(std::string_view key, double low, double high) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;

  /// As find_uint, but the key must be there.
  uint32_t uint(std::string_view key, uint32_t low, uint32_t high) const;
  /// Throws: "{where}: {key} is {value}, expected {expected}".
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;
  const std::string& where() const { return where_; }
  const nlohmann::json& json() const { return *object_; }

 private:
  const nlohmann::json* object_;
  std::string where_;
};

}  // namespace lily
