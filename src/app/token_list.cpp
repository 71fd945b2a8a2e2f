#include "app/token_list.h"

#include <charconv>
#include <string>
#include <system_error>

namespace lily {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string excerpt(std::string_view text) {
  constexpr size_t kMax = 24;
  std::string out;
  for (const char c : text.substr(0, kMax)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMax ? out + "..." : out;
}

}  // namespace

Result<std::vector<uint32_t>> parse_token_ids(std::string_view text) {
  std::string_view list = trimmed(text);
  const bool bracketed = list.starts_with('[');
  if (bracketed) {
    if (!list.ends_with(']') || list.size() < 2) return invalid("token ids: the list has no closing ]");
    list = trimmed(list.substr(1, list.size() - 2));
  }
  std::vector<uint32_t> ids;
  size_t at = 0;
  while (at < list.size()) {
    size_t end = list.find_first_of(", \t\r\n\v\f", at);
    if (end == std::string_view::npos) end = list.size();
    const std::string_view word = list.substr(at, end - at);
    uint32_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (word.empty() || error != std::errc{} || stop != word.data() + word.size()) {
      return invalid("token ids: entry {} is \"{}\", expected a whole number from 0", ids.size() + 1, excerpt(word));
    }
    ids.push_back(id);
    // White space, at most one comma, white space.
    const size_t next = list.find_first_not_of(kSpace, end);
    if (next == std::string_view::npos) break;
    const bool comma = list[next] == ',';
    if (bracketed && !comma) return invalid("token ids: no comma after entry {}", ids.size());
    at = comma ? list.find_first_not_of(kSpace, next + 1) : next;
    if (at == std::string_view::npos) return invalid("token ids: nothing after the comma behind entry {}", ids.size());
  }
  return ids;
}

Result<void> check_token_ids(std::span<const uint32_t> ids, uint32_t vocabulary) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocabulary) {
      return invalid("token id {} at position {} is not below the vocabulary size {}", ids[i], i, vocabulary);
    }
  }
  return {};
}

}  // namespace lily
