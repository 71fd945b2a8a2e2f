// What Python does to text where the chat template and the model's habits depend on it: str.strip() and literals such
// as
// {'a': True}.
#pragma once

#include <optional>
#include <string_view>

#include "text/json_text.h"

namespace lily {

/// str.strip(): removes Unicode white space at both ends (U+001C to U+001F and U+0085 included).
std::string_view python_strip(std::string_view text);

/// ast.literal_eval() for what JSON can hold: None, True, False, numbers, strings, lists, tuples (as arrays) and dicts
/// whose keys are strings, numbers, or constants (as strings, the way json.dumps writes them). The JSON words true,
/// false and null are taken too, since models mix the two. Nothing when the text is anything else, or nested deeper
/// than `max_depth`.
std::optional<ordered_json> parse_python_literal(std::string_view text, size_t max_depth = kDefaultJsonDepth);

}  // namespace lily
