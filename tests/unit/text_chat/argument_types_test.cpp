#include "text/argument_types.h"

#include <gtest/gtest.h>

#include <string>

namespace lily {
namespace {

/// The coerced value as JSON.
std::string coerce(std::string_view schema_text, std::string_view text, std::string_view root_text = "{}") {
  const ordered_json schema = parse_json(schema_text).value();
  const ordered_json root = parse_json(root_text).value();
  return compact_json(coerce_argument(text, &schema, root));
}

TEST(ArgumentTypes, StringsStayAsTheyAre) {
  const char* schema = R"({"type":"string"})";
  EXPECT_EQ(coerce(schema, "02134"), R"("02134")");
  EXPECT_EQ(coerce(schema, "null"), R"("null")");
  EXPECT_EQ(coerce(schema, " {\"a\": 1}\n"), R"(" {\"a\": 1}\n")");
  EXPECT_EQ(compact_json(coerce_argument("12", nullptr, ordered_json())), R"("12")");
  for (const char* unknown : {"{}", "true", R"({"type":"varchar"})", R"({"type":5})", R"({"type":[]})"}) {
    EXPECT_EQ(coerce(unknown, "12"), R"("12")") << unknown;
  }
}

TEST(ArgumentTypes, Integers) {
  const char* schema = R"({"type":"integer"})";
  EXPECT_EQ(coerce(schema, "12"), "12");
  EXPECT_EQ(coerce(schema, " -12 "), "-12");
  EXPECT_EQ(coerce(schema, "+12"), "12");
  EXPECT_EQ(coerce(schema, "5.0"), "5");
  EXPECT_EQ(coerce(schema, "-0.00"), "0");
  EXPECT_EQ(coerce(schema, "1e3"), "1000");
  EXPECT_EQ(coerce(schema, "5.5"), R"("5.5")");
  EXPECT_EQ(coerce(schema, "5."), R"("5.")");
  EXPECT_EQ(coerce(schema, "."), R"(".")");
  EXPECT_EQ(coerce(schema, "-"), R"("-")");
  EXPECT_EQ(coerce(schema, ""), R"("")");
  EXPECT_EQ(coerce(schema, "1e300"), R"("1e300")");
  EXPECT_EQ(coerce(schema, "2026-03-09"), R"("2026-03-09")");
  EXPECT_EQ(coerce(schema, "null"), R"("null")");
  EXPECT_EQ(coerce(schema, "123456789012345678901234567890"), "123456789012345678901234567890");
  EXPECT_EQ(coerce(schema, "123456789012345678901234567890.0"), "123456789012345678901234567890");
  EXPECT_EQ(coerce(R"({"type":"uint32"})", "7"), "7");
}

TEST(ArgumentTypes, NumbersKeepTheirSpelling) {
  const char* schema = R"({"type":"number"})";
  EXPECT_EQ(coerce(schema, "7"), "7");
  EXPECT_EQ(coerce(schema, "7.5"), "7.5");
  EXPECT_EQ(coerce(schema, "1e22"), "1e+22");
  EXPECT_EQ(coerce(schema, "123456789012345678901"), "123456789012345678901");
  EXPECT_EQ(coerce(schema, "nan"), R"("nan")");
  EXPECT_EQ(coerce(schema, "[1]"), R"("[1]")");
}

TEST(ArgumentTypes, BooleansInAnyCase) {
  const char* schema = R"({"type":"boolean"})";
  EXPECT_EQ(coerce(schema, "True"), "true");
  EXPECT_EQ(coerce(schema, "FALSE"), "false");
  EXPECT_EQ(coerce(schema, "yes"), R"("yes")");
  EXPECT_EQ(coerce(schema, "1"), R"("1")");
}

TEST(ArgumentTypes, StructuresAsJsonOrPython) {
  EXPECT_EQ(coerce(R"({"type":"object"})", R"({"b": 1, "a": [true, 1.0]})"), R"({"b":1,"a":[true,1.0]})");
  EXPECT_EQ(coerce(R"({"type":"object"})", "{'b': True, 'a': None}"), R"({"b":true,"a":null})");
  EXPECT_EQ(coerce(R"({"type":"array"})", "('a', 1)"), R"(["a",1])");
  EXPECT_EQ(coerce(R"({"type":"array"})", R"({"a":1})"), R"("{\"a\":1}")");
  EXPECT_EQ(coerce(R"({"type":"object"})", "for f in *.txt; do echo \"$f\"; done"),
            R"("for f in *.txt; do echo \"$f\"; done")");
  EXPECT_EQ(coerce(R"({"type":"array"})", "null"), R"("null")");
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_EQ(coerce(R"({"type":"array"})", deep), "\"" + deep + "\"");
}

TEST(ArgumentTypes, TheFirstAlternativeThatFitsWins) {
  const char* text_or_null = R"({"type":["string","null"]})";
  EXPECT_EQ(coerce(text_or_null, "123"), R"("123")");
  EXPECT_EQ(coerce(text_or_null, "null"), "null");
  EXPECT_EQ(coerce(text_or_null, "None"), R"("None")");
  const char* integer_or_text = R"({"anyOf":[{"type":"integer"},{"type":"string"}]})";
  EXPECT_EQ(coerce(integer_or_text, "5"), "5");
  EXPECT_EQ(coerce(integer_or_text, "5a"), R"("5a")");
  EXPECT_EQ(coerce(integer_or_text, "null"), R"("null")");
  EXPECT_EQ(coerce(R"({"anyOf":[{"type":"string"},{"type":"integer"}]})", "5"), R"("5")");
  EXPECT_EQ(coerce(R"({"oneOf":[{"type":"boolean"},{"type":"array"},{"type":"null"}]})", "[1]"), "[1]");
  EXPECT_EQ(coerce(R"({"anyOf":[{"type":["integer","null"]}]})", "null"), "null");
  EXPECT_EQ(coerce(R"({"type":"integer","nullable":true})", "null"), "null");
  EXPECT_EQ(coerce(R"({"anyOf":5})", "5"), R"("5")");
}

TEST(ArgumentTypes, FollowsReferencesAndMembers) {
  const char* root =
      R"({"$defs":{"count":{"type":"integer"},"a/b":{"type":"boolean"},"self":{"$ref":"#/$defs/self"}}})";
  EXPECT_EQ(coerce(R"({"$ref":"#/$defs/count"})", "5", root), "5");
  EXPECT_EQ(coerce(R"({"$ref":"#/$defs/a~1b"})", "true", root), "true");
  EXPECT_EQ(coerce(R"({"allOf":[{"$ref":"#/$defs/count"}]})", "5", root), "5");
  for (const char* nowhere : {"#/$defs/none", "#/$defs/self", "http://x/y", "#x", "#/"}) {
    EXPECT_EQ(coerce(fmt::format("{{\"$ref\":\"{}\"}}", nowhere), "5", root), R"("5")") << nowhere;
  }
  EXPECT_EQ(coerce(R"({"enum":["1","2"]})", "1"), R"("1")");
  EXPECT_EQ(coerce(R"({"enum":[1,2,"auto",null]})", "2"), "2");
  EXPECT_EQ(coerce(R"({"enum":[1,2,"auto",null]})", "auto"), R"("auto")");
  EXPECT_EQ(coerce(R"({"enum":[1,2,"auto",null]})", "null"), "null");
  EXPECT_EQ(coerce(R"({"enum":[1,2,"auto",null]})", "3"), R"("3")");
  EXPECT_EQ(coerce(R"({"const":false})", "false"), "false");
  EXPECT_EQ(coerce(R"({"properties":{}})", "{}"), "{}");
}

TEST(ArgumentTypes, ABranchingCycleOfReferencesIsBounded) {
  std::string root = R"({"$defs":{"a":{"anyOf":[)";
  for (int i = 0; i < 50; ++i) root += R"({"$ref":"#/$defs/a"},)";
  root += R"({"type":"integer"}]}}})";
  EXPECT_EQ(coerce(R"({"$ref":"#/$defs/a"})", "x", root), R"("x")");
}

}  // namespace
}  // namespace lily
