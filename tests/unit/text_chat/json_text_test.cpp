#include "text/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace lily {
namespace {

std::string python(std::string_view text) {
  const Result<ordered_json> value = parse_json(text);
  return value ? python_json(value.value()) : "failure: " + value.failure().message;
}

std::string compact(std::string_view text) {
  const Result<ordered_json> value = parse_json(text);
  return value ? compact_json(value.value()) : "failure: " + value.failure().message;
}

TEST(JsonText, KeepsKeyOrderAndUsesPythonsSeparators) {
  EXPECT_EQ(python(R"({"z":1,"a":[1,2,{}],"m":{"b":[],"a":null}})"),
            R"({"z": 1, "a": [1, 2, {}], "m": {"b": [], "a": null}})");
  EXPECT_EQ(compact("{ \"z\" : 1 ,\n\"a\":[true , false] }\t"), R"({"z":1,"a":[true,false]})");
}

TEST(JsonText, SpellsNumbersAsPython) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"0", "0"},
      {"-0", "0"},
      {"-0.0", "-0.0"},
      {"0.0", "0.0"},
      {"0e5", "0.0"},
      {"1.0", "1.0"},
      {"1.50", "1.5"},
      {"0.1", "0.1"},
      {"1e22", "1e+22"},
      {"1E5", "100000.0"},
      {"1e15", "1000000000000000.0"},
      {"1e16", "1e+16"},
      {"123456789012345678.0", "1.2345678901234568e+17"},
      {"9007199254740993.0", "9007199254740992.0"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"0.0000001", "1e-07"},
      {"1.5e-7", "1.5e-07"},
      {"123.456", "123.456"},
      {"-25000000000.0", "-25000000000.0"},
      {"5e-324", "5e-324"},
      {"2.2250738585072014e-308", "2.2250738585072014e-308"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"1e-400", "0.0"},
      {"-1e-400", "-0.0"},
      {"9223372036854775807", "9223372036854775807"},
      {"9223372036854775808", "9223372036854775808"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"-9223372036854775809", "-9223372036854775809"},
      {"18446744073709551615", "18446744073709551615"},
      {"18446744073709551616", "18446744073709551616"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(python(text), expected) << text;
  const std::string long_digits = "-1" + std::string(5000, '7');
  EXPECT_EQ(python(long_digits), long_digits);
  EXPECT_EQ(python("0." + std::string(400, '0') + "1e401"), "1.0");
}

TEST(JsonText, KnowsIntegersOfEverySize) {
  EXPECT_TRUE(is_integer(parse_json("12").value()));
  EXPECT_TRUE(is_integer(parse_json("123456789012345678901").value()));
  EXPECT_TRUE(is_big_integer(parse_json("123456789012345678901").value()));
  EXPECT_FALSE(is_integer(parse_json("12.0").value()));
  EXPECT_FALSE(is_big_integer(parse_json("12").value()));
  EXPECT_EQ(compact_json(integer_from_digits("-007")), "-7");
}

TEST(JsonText, EscapesAsPythonDoes) {
  EXPECT_EQ(python(R"("\u0000\u001f\b\f\n\r\t\"\\\/\u007fé\u00e9\ud83d\ude42")"),
            "\"\\u0000\\u001f\\b\\f\\n\\r\\t\\\"\\\\/\x7f\xc3\xa9\xc3\xa9\xf0\x9f\x99\x82\"");
  EXPECT_EQ(python(R"({"a\nb":"<b>&'"})"), R"({"a\nb": "<b>&'"})");
}

TEST(JsonText, LastOfARepeatedKeyWinsAtTheFirstPlace) {
  EXPECT_EQ(compact(R"({"a":1,"b":2,"a":3})"), R"({"a":3,"b":2})");
  std::string text = "{";
  for (int i = 0; i < 100; ++i) text += fmt::format("\"k{}\":{},", i, i);
  EXPECT_TRUE(compact(text + "\"k50\":\"x\"}").find("\"k49\":49,\"k50\":\"x\",\"k51\":51") != std::string::npos);
}

TEST(JsonText, ManyKeysTakeLinearTime) {
  // With a search through all keys for each, this would take minutes.
  std::string text = "{\"first\":0";
  for (int i = 0; i < 200000; ++i) text += fmt::format(",\"key{}\":{}", i, i);
  const Result<ordered_json> value = parse_json(text + "}");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value.value().size(), 200001U);
}

TEST(JsonText, RefusesWhatIsNotJsonWithThePosition) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "JSON, byte 0: expected a value, found the end of the text"},
      {"{\"a\":1,}", "JSON, byte 7: expected a quoted key, found '}'"},
      {"{a:1}", "JSON, byte 1: expected a quoted key or '}', found 'a'"},
      {"[1,]", "JSON, byte 3: expected a value, found ']'"},
      {"[1 2]", "JSON, byte 3: expected ',' or ']', found '2'"},
      {"{\"a\" 1}", "JSON, byte 5: expected ':', found '1'"},
      {"{\"a\":1 \"b\"", "JSON, byte 7: expected ',' or '}', found '\"'"},
      {"1 x", "JSON, byte 2: expected the end of the text, found 'x'"},
      {"NaN", "JSON, byte 0: expected a value, found 'N'"},
      {"-Infinity", "JSON, byte 0: expected a value, found '-'"},
      {"1e400", "JSON, byte 0: expected a number within the range of a double, found '1'"},
      {"01", "JSON, byte 1: expected the end of the text, found '1'"},
      {"1.", "JSON, byte 2: expected a digit after '.', found the end of the text"},
      {"\"a", "JSON, byte 2: expected '\"' at the end of a string, found the end of the text"},
      {"\"\n\"", "JSON, byte 1: expected control characters in strings to be escaped, found byte 0x0a"},
      {"\"\\x\"", "JSON, byte 2: expected one of \" \\ / b f n r t u after '\\', found 'x'"},
      {"\"\\u12g4\"", "JSON, byte 2: expected \\u and four hex digits, found 'u'"},
      {"\"\\ud800\"", "JSON, byte 7: expected escaped surrogates in pairs, found '\"'"},
      {"\"\xff\"", "JSON, byte 1: expected valid UTF-8, found byte 0xff"},
      {"'a'", "JSON, byte 0: expected a value, found '''"},
  };
  for (const auto& [text, message] : cases) {
    const Result<ordered_json> value = parse_json(text);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.failure().message, message) << text;
  }
}

TEST(JsonText, RefusesBadUtf8) {
  for (const std::string_view bytes : {"\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                       "\xf0\x8f\xbf\xbf", "\x80", "\xe2\x82", "\xf5\x80\x80\x80"}) {
    EXPECT_FALSE(parse_json("\"" + std::string(bytes) + "\"").ok());
  }
  for (const std::string_view bytes : {"\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"}) {
    EXPECT_EQ(parse_json("\"" + std::string(bytes) + "\"").value(), std::string(bytes));
  }
}

TEST(JsonText, FloatsBecomeTheDoublesThatPrintAlike) {
  for (const auto& [value, text] :
       {std::pair(0.6F, "0.6"), {1e-6F, "1e-06"}, {-1e30F, "-1e+30"}, {3.0F, "3.0"}, {0.0F, "0.0"}}) {
    EXPECT_EQ(compact_json(shortest_double(value)), text);
    EXPECT_EQ(static_cast<float>(shortest_double(value)), value);
  }
  EXPECT_TRUE(std::isnan(shortest_double(NAN)));
}

TEST(JsonText, LimitsTheDepth) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(64)).ok());
  EXPECT_FALSE(parse_json(nested(65)).ok());
  EXPECT_TRUE(parse_json(nested(3), 3).ok());
  EXPECT_FALSE(parse_json(nested(4), 3).ok());
  EXPECT_FALSE(parse_json(std::string(1000000, '[')).ok());
  EXPECT_EQ(parse_json("[{\"a\":[]}]", 2).failure().message,
            "JSON, byte 6: expected at most 2 nested arrays and objects, found '['");
}

}  // namespace
}  // namespace lily
