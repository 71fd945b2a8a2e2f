#include "text/python_text.h"

#include <gtest/gtest.h>

#include <string>

namespace lily {
namespace {

std::string literal(std::string_view text) {
  const std::optional<ordered_json> value = parse_python_literal(text);
  return value ? compact_json(*value) : "none";
}

TEST(PythonStrip, RemovesUnicodeWhiteSpaceAtBothEnds) {
  EXPECT_EQ(python_strip(" \t\r\n\v\f\x1c\x1f\xc2\x85\xc2\xa0\xe3\x80\x80 a b \xe2\x80\x83\n"), "a b");
  EXPECT_EQ(python_strip("\xe2\x80\x8b"), "\xe2\x80\x8b");  // a zero-width space is none
  EXPECT_EQ(python_strip("\xef\xbb\xbfx"), "\xef\xbb\xbfx");
  EXPECT_EQ(python_strip(" \n "), "");
  EXPECT_EQ(python_strip("\xc3\x85"), "\xc3\x85");  // ends in the byte that also ends U+0085
}

TEST(PythonLiteral, ReadsContainersAndConstants) {
  EXPECT_EQ(literal("{'a': True, \"b\": [None, False], 'c': (1, 2.5), }"),
            R"({"a":true,"b":[null,false],"c":[1,2.5]})");
  EXPECT_EQ(literal("{'a': true, 'b': null}"), R"({"a":true,"b":null})");
  EXPECT_EQ(literal("{1: 'x', True: 'y', None: 'z', 1: 'w'}"), R"({"1":"w","true":"y","null":"z"})");
  EXPECT_EQ(literal("(1)"), "1");
  EXPECT_EQ(literal("(1,)"), "[1]");
  EXPECT_EQ(literal("()"), "[]");
  EXPECT_EQ(literal("[1, -2, +3, .5, 5., 1e3, 123456789012345678901]"),
            "[1,-2,3,0.5,5.0,1000.0,123456789012345678901]");
}

TEST(PythonLiteral, ReadsStringEscapes) {
  EXPECT_EQ(literal(R"('it\'s "x" \n\t\\ \x41\u00e9\U0001f642\101\q')"),
            "\"it's \\\"x\\\" \\n\\t\\\\ A\xc3\xa9\xf0\x9f\x99\x82"
            "A\\\\q\"");
  EXPECT_EQ(literal(R"("a'b")"), R"("a'b")");
}

TEST(PythonLiteral, RefusesEverythingElse) {
  for (const char* text :
       {"",         "abc",   "{'a'}",      "{'a': }",   "[1 2]",  "[,]", "[1,,2]", "'a",   "'a\nb'", "f(1)",
        "{[1]: 2}", "1 + 2", "{'a': 1} x", "'\\ud800'", "'\\x4'", "--1", ".",      "1..2", "nan",    "007"}) {
    EXPECT_EQ(literal(text), "none") << text;
  }
}

TEST(PythonLiteral, LimitsTheDepth) {
  EXPECT_TRUE(parse_python_literal(std::string(64, '[') + std::string(64, ']')).has_value());
  EXPECT_FALSE(parse_python_literal(std::string(65, '[') + std::string(65, ']')).has_value());
  EXPECT_FALSE(parse_python_literal(std::string(1000000, '(')).has_value());
  std::string dicts;
  for (int i = 0; i < 100000; ++i) dicts += "{'a':";
  EXPECT_FALSE(parse_python_literal(dicts).has_value());
}

}  // namespace
}  // namespace lily
