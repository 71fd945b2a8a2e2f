// Seeded random texts against the output parser and the JSON parser: nothing crashes, cutting never changes a result,
// and what the parsers hand out is valid JSON. Every run replays the same texts.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/assistant_turn.h"
#include "text/json_text.h"
#include "text/output_parser.h"
#include "text/python_text.h"

namespace lily {
namespace {

using Random = std::mt19937_64;

size_t below(Random& random, size_t limit) {
  return static_cast<size_t>(random() % limit);
}

constexpr const char* kTools = R"([
 {"type":"function","function":{"name":"book_seat","parameters":{"type":"object","properties":{
   "row":{"type":"integer"},"price":{"type":"number"},"zip":{"type":"string"},"window":{"type":"boolean"},
   "tags":{"type":"array"},"extra":{"type":"object"},"note":{"type":["string","null"]},"any":{}}}}},
 {"type":"function","function":{"name":"save_text","parameters":{"type":"object","properties":{
   "path":{"type":"string"},"body":{"type":"string"}}}}}])";

constexpr std::array<std::string_view, 44> kPieces = {"<tool_call>",
                                                      "</tool_call>",
                                                      "<function=",
                                                      "<function=book_seat>",
                                                      "<function=save_text>",
                                                      "<function=other>",
                                                      "</function>",
                                                      "<parameter=",
                                                      "<parameter=row>",
                                                      "<parameter=body>",
                                                      "<parameter=zip>",
                                                      "<parameter=tags>",
                                                      "<parameter=odd>",
                                                      "</parameter>",
                                                      "<think>",
                                                      "</think>",
                                                      "\n",
                                                      "\n\n",
                                                      " ",
                                                      "\t",
                                                      ">",
                                                      "<",
                                                      "</",
                                                      "=",
                                                      "12",
                                                      "5.0",
                                                      "null",
                                                      "True",
                                                      "[1, 'a']",
                                                      "{\"a\": 1}",
                                                      "{'a': None}",
                                                      "\"",
                                                      "\\",
                                                      "text",
                                                      "\xc3\xa9",
                                                      "\xf0\x9f\x99\x82",
                                                      "\r\n",
                                                      "1e999",
                                                      "<parameter=extra>",
                                                      "[[[[",
                                                      "\x01",
                                                      "</param",
                                                      "<tool_",
                                                      "-0"};

constexpr std::array<std::string_view, 4> kTexts = {
    "I will "
    "look.\n\n<tool_call>\n<function=book_seat>\n<parameter=row>\n12\n</parameter>\n<parameter=zip>\n02134\n</"
    "parameter>"
    "\n</function>\n</tool_call>",
    "thought\n</think>\n\n<tool_call>\n<function=save_text>\n<parameter=body>\n{\n  \"a\": "
    "1\n}\n\n</parameter>\n<parameter="
    "path>\nx.json\n</parameter>\n</function>\n</"
    "tool_call>\n<tool_call>\n<function=book_seat>\n<parameter=tags>\n['a', 'b']\n"
    "</parameter>\n<parameter=window>\nTrue\n</parameter>\n</function>\n</tool_call>",
    "<function=book_seat>\n<parameter=extra>\n{'k': [1, (2, "
    "3)]}\n</parameter>\n<parameter=price>\n7\n</parameter>\n</function>",
    "<tool_call>\n<function=save_text>\n<parameter=body>\nUse "
    "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n"
    "</function>\n</tool_call> here\n</parameter>\n</function>\n</tool_call>\nbye\n"};

/// A start of a character in `text`, or its end.
size_t character_place(Random& random, const std::string& text) {
  size_t place = below(random, text.size() + 1);
  while (place < text.size() && (static_cast<unsigned char>(text[place]) & 0xc0U) == 0x80U) --place;
  return place;
}

/// Removes, doubles and inserts stretches; the result stays valid UTF-8.
template <size_t n>
std::string mutated(Random& random, std::string text, const std::array<std::string_view, n>& pieces) {
  for (size_t change = below(random, 8); change > 0; --change) {
    const size_t place = character_place(random, text);
    const size_t end = std::min(text.size(), std::max(place, character_place(random, text)));
    const size_t stretch = std::min(end - place, size_t{40});
    const bool whole =
        place + stretch == text.size() || (static_cast<unsigned char>(text[place + stretch]) & 0xc0U) != 0x80U;
    switch (below(random, 4)) {
      case 0:
        if (whole) text.erase(place, stretch);
        break;
      case 1:
        if (whole) text.insert(place, text.substr(place, stretch));
        break;
      default:
        text.insert(place, pieces[below(random, n)]);
    }
  }
  return text;
}

std::string random_text(Random& random) {
  if (below(random, 2) == 0) return mutated(random, std::string(kTexts[below(random, kTexts.size())]), kPieces);
  std::string text;
  for (size_t count = below(random, 30); count > 0; --count) text += kPieces[below(random, kPieces.size())];
  return text;
}

struct Settings {
  bool thinking;
  bool tools;
  FinishCause cause;
};

AssistantTurn parse(const std::vector<std::string_view>& pieces, const Settings& settings) {
  static const ordered_json tools = parse_json(kTools).value();
  OutputParser parser({.starts_in_reasoning = settings.thinking,
                       .parse_tools = settings.tools,
                       .tools = tools,
                       .random_bits = [next = uint64_t{0}]() mutable { return ++next; }});
  AssistantTurn turn;
  for (const std::string_view piece : pieces) turn.add(parser.push(piece));
  turn.add(parser.finish(settings.cause));
  return turn;
}

std::vector<std::string_view> random_cuts(Random& random, std::string_view text) {
  const size_t longest = 1 + below(random, 40);
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t length = std::min(text.size(), 1 + below(random, longest));
    pieces.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return pieces;
}

TEST(OutputParserFuzz, CuttingNeverChangesTheResultAndArgumentsAreJson) {
  Random random(1);
  size_t calls = 0;
  for (int round = 0; round < 10000; ++round) {
    const std::string text = random_text(random);
    const Settings settings{.thinking = below(random, 2) == 0,
                            .tools = below(random, 8) != 0,
                            .cause = below(random, 3) == 0 ? FinishCause::kLength : FinishCause::kStop};
    const AssistantTurn whole = parse({text}, settings);
    const std::string message = compact_json(whole.to_message(settings.cause));
    for (int i = 0; i < 2; ++i) {
      const AssistantTurn cut = parse(random_cuts(random, text), settings);
      ASSERT_EQ(compact_json(cut.to_message(settings.cause)), message) << "round " << round << ": " << text;
      ASSERT_EQ(cut.finish_reason(settings.cause), whole.finish_reason(settings.cause)) << "round " << round;
    }
    for (const ToolCall& call : whole.calls) {
      ++calls;
      const Result<ordered_json> arguments = parse_json(call.arguments);
      ASSERT_TRUE(arguments.ok()) << call.arguments << " of: " << text;
      ASSERT_TRUE(arguments.value().is_object());
      ASSERT_EQ(compact_json(arguments.value()), call.arguments) << "a key twice, or another spelling";
    }
    if (!settings.tools) {
      ASSERT_TRUE(whole.calls.empty());
    }
    if (!settings.tools && !settings.thinking) {
      ASSERT_EQ(whole.content, text);
    }
  }
  EXPECT_GT(calls, 1000U) << "the texts hardly hold calls any more";
}

constexpr std::array<std::string_view, 30> kJsonPieces = {
    "{",       "}",  "[",  "]",      ",",       ":",       "\"",       "\\",   "\"a\"",
    "\"a\":1", "1",  "-0", "1.5e-7", "1e999",   "0",       ".",        "null", "true",
    "false",   " ",  "\n", "\\u00",  "\\ud83d", "\\ude42", "\xc3\xa9", "\x01", "18446744073709551616",
    "-",       "e5", "\t"};
constexpr std::array<std::string_view, 3> kJsonTexts = {
    R"({"a": [1, 2.5, {"b": null}], "c": "x\n\u00e9", "d": true, "a": 1e22})", R"([[], {}, "", 0, -1, "\ud83d\ude42"])",
    R"({"type":"object","properties":{"x":{"type":["string","null"]}},"required":["x"],"n":12345678901234567890})"};

TEST(JsonFuzz, AgreesWithAnotherParserOnWhatIsJson) {
  Random random(2);
  size_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string text = mutated(random, std::string(kJsonTexts[below(random, kJsonTexts.size())]), kJsonPieces);
    const Result<ordered_json> value = parse_json(text, 1000);
    ASSERT_EQ(value.ok(), ordered_json::accept(text)) << text;
    if (!value) continue;
    ++accepted;
    // Printing and reading again changes nothing, in either style.
    const std::string python = python_json(value.value());
    ASSERT_EQ(python_json(parse_json(python).value()), python) << text;
    const std::string compact = compact_json(value.value());
    ASSERT_EQ(compact_json(parse_json(compact).value()), compact) << text;
    ASSERT_TRUE(ordered_json::accept(python)) << python;
    ASSERT_TRUE(ordered_json::accept(compact)) << compact;
    if (text.find('5') == std::string::npos && text.find("18446744073709551616") == std::string::npos) {
      ASSERT_EQ(value.value(), ordered_json::parse(text)) << text;  // texts without floats or big integers
    }
  }
  EXPECT_GT(accepted, 1000U) << "the texts are hardly JSON any more";
}

TEST(JsonFuzz, RandomBytesAreRefusedOrValidJson) {
  Random random(3);
  for (int round = 0; round < 10000; ++round) {
    std::string text(kJsonTexts[below(random, kJsonTexts.size())]);
    for (size_t change = below(random, 4); change > 0; --change) {
      text[below(random, text.size())] = static_cast<char>(below(random, 256));
    }
    ASSERT_EQ(parse_json(text).ok(), ordered_json::accept(text)) << text;
  }
}

TEST(PythonLiteralFuzz, WhatIsReadPrintsAsJson) {
  constexpr std::array<std::string_view, 22> kLiteralPieces = {
      "{",    "}", "[",     "]",  "(",   ")",    ",", ":",     "'", "\"", "\\",
      "None", "1", "False", ".5", "'a'", "\\x4", " ", "\\u12", "-", "e3", "\xc3\xa9"};
  Random random(4);
  size_t read = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string text = mutated(random, "{'a': [1, (2, 'x\\n'), True], \"b\": None, 3: {}}", kLiteralPieces);
    const std::optional<ordered_json> value = parse_python_literal(text);
    if (!value) continue;
    ++read;
    const std::string compact = compact_json(*value);
    const Result<ordered_json> again = parse_json(compact);
    ASSERT_TRUE(again.ok()) << text;
    ASSERT_EQ(compact_json(again.value()), compact) << text;
  }
  EXPECT_GT(read, 1000U) << "the texts are hardly literals any more";
}

}  // namespace
}  // namespace lily
