// JSON text to values and back, as Python's json.loads and json.dumps do it: key order and number spelling survive,
// because both are part of the prompt. Schema checks and typed access are left to the callers.
//
// Integers beyond 64 bits are kept as a binary value of a private subtype that holds their digits. JSON text has no
// binary values, so nothing else can look like one; the writers below print the digits. Never print with
// ordered_json::dump().
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lily {

using nlohmann::ordered_json;

constexpr size_t kDefaultJsonDepth = 64;

/// Parses one JSON value. Refuses what RFC 8259 refuses, and: invalid UTF-8, escaped lone surrogates, NaN and Infinity,
/// floats beyond the range of a double, and more than `max_depth` nested arrays and objects. Of a repeated key the last
/// value wins, at the place of the first. The Failure names the byte position.
Result<ordered_json> parse_json(std::string_view text, size_t max_depth = kDefaultJsonDepth);

/// json.dumps(value, ensure_ascii=False).
std::string python_json(const ordered_json& value);
/// json.dumps(value, ensure_ascii=False, separators=(",", ":")); a NaN or infinity that the program itself made is
/// null.
std::string compact_json(const ordered_json& value);

/// An integer from its decimal digits with an optional '-': 64-bit where it fits, else the digit-keeping form. Leading
/// zeros are removed. The digits must be valid.
ordered_json integer_from_digits(std::string_view digits);
/// True for the digit-keeping form of an integer beyond 64 bits.
bool is_big_integer(const ordered_json& value);
/// True for every integer, small or big.
bool is_integer(const ordered_json& value);
/// repr(value) of a finite float in Python: 1.0, 0.1, 1e+22, 1e-07.
std::string python_float(double value);
/// The double whose shortest spelling is that of the float: 0.6F gives 0.6, not 0.6000000238418579.
double shortest_double(float value);

}  // namespace lily
