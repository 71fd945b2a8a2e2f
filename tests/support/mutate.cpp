#include "tests/support/mutate.h"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>

namespace lily::test {
namespace {

using Engine = std::mt19937_64;

size_t below(Engine& engine, size_t limit) {
  return limit == 0 ? 0 : engine() % limit;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Exchanges the number that follows a random place.
void exchange_number(std::string& text, Engine& engine) {
  constexpr std::array<std::string_view, 12> kNumbers = {
      "0",  "-1",  "1",   "4294967296", "9223372036854775808", "18446744073709551615", "18446744073709551616", "1e308",
      "64", "255", "0.5", "null"};
  const auto start = text.begin() + static_cast<std::ptrdiff_t>(below(engine, text.size()));
  const auto first = std::find_if(start, text.end(), is_digit);
  const auto last = std::find_if_not(first, text.end(), is_digit);
  text.replace(first, last, kNumbers.at(below(engine, kNumbers.size())));
}

void edit_once(std::string& text, Engine& engine) {
  constexpr std::string_view kStructure = "{}[]\",:\\0 \x01\xff";
  const size_t at = below(engine, text.size());
  const size_t length = 1 + below(engine, 40);
  switch (below(engine, 6)) {
    case 0:
      text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << below(engine, 8)));
      return;
    case 1:
      text[at] = kStructure[below(engine, kStructure.size())];
      return;
    case 2:
      text.erase(at, length);
      return;
    case 3:
      text.insert(below(engine, text.size()), text.substr(at, length));
      return;
    case 4:
      text.insert(at, length, kStructure[below(engine, kStructure.size())]);
      return;
    default:
      exchange_number(text, engine);
  }
}

}  // namespace

std::string mutated(std::string text, uint64_t seed) {
  Engine engine(seed);
  const size_t edits = 1 + below(engine, 4);
  for (size_t i = 0; i < edits && !text.empty(); ++i) {
    edit_once(text, engine);
  }
  return text;
}

}  // namespace lily::test
