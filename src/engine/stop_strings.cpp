#include "engine/stop_strings.h"

#include <algorithm>
#include <utility>

namespace lily {

std::string StopStrings::push(std::string_view text) {
  if (matched_) {
    return {};
  }
  size_t end = held_.size();
  held_ += text;
  while (end < held_.size()) {
    ++end;
    matched_ = match_at(end);
    if (matched_) {
      std::string before = held_.substr(0, end - strings_[*matched_].size());
      held_.clear();
      return before;
    }
  }
  const size_t keep = possible_start();
  std::string certain = held_.substr(0, keep);
  held_.erase(0, keep);
  return certain;
}

std::string StopStrings::finish() {
  return std::exchange(held_, {});
}

/// The longest string that ends at held_[0, end).
std::optional<size_t> StopStrings::match_at(size_t end) const {
  const std::string_view seen = std::string_view(held_).substr(0, end);
  std::optional<size_t> best;
  for (size_t i = 0; i < strings_.size(); ++i) {
    if (seen.ends_with(strings_[i]) && (!best || strings_[i].size() > strings_[*best].size())) {
      best = i;
    }
  }
  return best;
}

/// Start of the longest end of held_ with which a stop string could begin.
size_t StopStrings::possible_start() const {
  size_t longest = 0;
  for (const std::string& string : strings_) {
    longest = std::max(longest, string.size() - 1);
  }
  for (size_t start = held_.size() - std::min(longest, held_.size()); start < held_.size(); ++start) {
    const std::string_view rest = std::string_view(held_).substr(start);
    if (std::any_of(strings_.begin(), strings_.end(), [&](const std::string& s) { return s.starts_with(rest); })) {
      return start;
    }
  }
  return held_.size();
}

}  // namespace lily
