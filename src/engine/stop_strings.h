// Finds stop strings in text that arrives in pieces, and holds back text that may turn out to be the start of one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lily {

/// The stop string whose match ends first wins, the longest of those that end together; so the result does not depend
/// on how the text was cut into pieces.
class StopStrings {
 public:
  /// None of the strings is empty.
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  /// Adds text and returns what is certain not to belong to a stop string. After a match nothing is added any more.
  std::string push(std::string_view text);
  /// The end of the text: what was held back, empty after a match.
  std::string finish();
  /// Index of the string that matched.
  std::optional<size_t> matched() const { return matched_; }

 private:
  std::optional<size_t> match_at(size_t end) const;
  size_t possible_start() const;

  std::vector<std::string> strings_;
  std::string held_;
  std::optional<size_t> matched_;
};

}  // namespace lily
