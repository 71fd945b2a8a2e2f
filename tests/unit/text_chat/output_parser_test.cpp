#include "text/output_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/assistant_turn.h"

namespace lily {
namespace {

constexpr const char* kTools = R"([
 {"type":"function","function":{"name":"book_seat","parameters":{"type":"object","properties":{
   "row":{"type":"integer"},"price":{"type":"number"},"zip":{"type":"string"},"window":{"type":"boolean"},
   "tags":{"type":"array","items":{"type":"string"}},"extra":{"type":"object"},
   "note":{"type":["string","null"]},"ref":{"anyOf":[{"type":"integer"},{"type":"string"}]}},"required":["row"]}}},
 {"type":"function","function":{"name":"save_text","parameters":{"type":"object","properties":{
   "path":{"type":"string"},"body":{"type":"string"}},"required":["path","body"]}}},
 {"name":"free","parameters":{"type":"object"}}])";

struct Case {
  bool thinking = false;
  bool tools = true;
  FinishCause cause = FinishCause::kStop;
};

OutputParserOptions options_for(const Case& one_case) {
  return {.starts_in_reasoning = one_case.thinking,
          .parse_tools = one_case.tools,
          .tools = parse_json(kTools).value(),
          .random_bits = [next = uint64_t{0}]() mutable { return ++next; }};
}

/// One line that tells all: reasoning|content|name{arguments}…|finish reason. A cut call has a '!' before its name.
std::string summary(const AssistantTurn& turn, FinishCause cause) {
  std::string text = turn.reasoning + "|" + turn.content + "|";
  for (const ToolCall& call : turn.calls) text += (call.complete ? "" : "!") + call.name + call.arguments;
  return text + "|" + turn.finish_reason(cause);
}

AssistantTurn parse_pieces(const std::vector<std::string_view>& pieces, const Case& one_case) {
  OutputParser parser(options_for(one_case));
  AssistantTurn turn;
  for (const std::string_view piece : pieces) turn.add(parser.push(piece));
  turn.add(parser.finish(one_case.cause));
  return turn;
}

/// The summary of the text in one piece, after checking that every cut in two and single bytes give the same.
std::string parse(std::string_view text, const Case& one_case = {}) {
  const std::string whole = summary(parse_pieces({text}, one_case), one_case.cause);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string two = summary(parse_pieces({text.substr(0, cut), text.substr(cut)}, one_case), one_case.cause);
    EXPECT_EQ(two, whole) << "cut at " << cut << " of: " << text;
  }
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  EXPECT_EQ(summary(parse_pieces(bytes, one_case), one_case.cause), whole) << "single bytes of: " << text;
  return whole;
}

std::string parameter(const std::string& key, const std::string& value) {
  return "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
}

std::string call(const std::string& name, const std::string& parameters) {
  return "<tool_call>\n<function=" + name + ">\n" + parameters + "</function>\n</tool_call>";
}

std::string book(const std::string& parameters) {
  return call("book_seat", parameters);
}

const std::string kT01 = book(parameter("row", "12") + parameter("zip", "02134"));
const std::string kT01Result = R"(book_seat{"row":12,"zip":"02134"}|tool_calls)";
constexpr Case kThinking{.thinking = true};
constexpr Case kCut{.cause = FinishCause::kLength};

TEST(OutputParser, ReadsACall) {
  EXPECT_EQ(parse(kT01), "||" + kT01Result);
}

TEST(OutputParser, KeepsValuesThatDoNotFitTheirType) {
  EXPECT_EQ(parse(book(parameter("row", "2026-03-09"))), R"(||book_seat{"row":"2026-03-09"}|tool_calls)");
  EXPECT_EQ(parse(book(parameter("row", "1") + parameter("extra", R"(for f in *.txt; do echo "$f"; done)"))),
            R"(||book_seat{"row":1,"extra":"for f in *.txt; do echo \"$f\"; done"}|tool_calls)");
}

TEST(OutputParser, TypesValuesBySchema) {
  EXPECT_EQ(parse(book(parameter("row", "4") + parameter("window", "True"))),
            R"(||book_seat{"row":4,"window":true}|tool_calls)");
  EXPECT_EQ(parse(book(parameter("row", "4") + parameter("window", "FALSE"))),
            R"(||book_seat{"row":4,"window":false}|tool_calls)");
  EXPECT_EQ(parse(book(parameter("row", "5.0") + parameter("price", "7"))),
            R"(||book_seat{"row":5,"price":7}|tool_calls)");
  EXPECT_EQ(parse(book(parameter("row", "3") + parameter("note", "123"))),
            R"(||book_seat{"row":3,"note":"123"}|tool_calls)");
  EXPECT_EQ(parse(book(parameter("row", "3") + parameter("note", "null") + parameter("zip", "null"))),
            R"(||book_seat{"row":3,"note":null,"zip":"null"}|tool_calls)");
  EXPECT_EQ(parse(book(parameter("tags", "['a', 'b']") + parameter("ref", "9") + parameter("other", "9"))),
            R"(||book_seat{"tags":["a","b"],"ref":9,"other":"9"}|tool_calls)");
}

TEST(OutputParser, TrimsContentBeforeACall) {
  EXPECT_EQ(parse("I will look.\n\n" + kT01), "|I will look.|" + kT01Result);
}

TEST(OutputParser, ACallEndsReasoning) {
  EXPECT_EQ(parse("Need a seat.\n" + kT01, kThinking), "Need a seat.||" + kT01Result);
  EXPECT_EQ(parse("Need a seat.\n" + kT01 + "\n</think>\n\n", kThinking), "Need a seat.||" + kT01Result);
  EXPECT_EQ(parse("I use <tool_call> for it.\n</think>\n\nDone", kThinking), "I use <tool_call> for it.|Done||stop");
  EXPECT_EQ(parse("<tool_call>\n\n<tool_call>x", kThinking), "<tool_call>\n\n<tool_call>x|||stop");
}

TEST(OutputParser, DropsALoneCloser) {
  EXPECT_EQ(parse("All done.\n</tool_call>"), "|All done.||stop");
  EXPECT_EQ(parse("All done.\n</tool_call>\n"), "|All done.||stop");
  EXPECT_EQ(parse("one\n</tool_call>\ntwo"), "|one\ntwo||stop");
}

TEST(OutputParser, KeepsTheLinesOfAValue) {
  const std::string expected = R"(||save_text{"body":"{\n  \"a\": 1\n}\n","path":"x"}|tool_calls)";
  EXPECT_EQ(parse(call("save_text", parameter("body", "{\n  \"a\": 1\n}\n") + parameter("path", "x"))), expected);
  EXPECT_EQ(parse(call("save_text", parameter("path", "") + parameter("body", "\n\n x"))),
            R"(||save_text{"path":"","body":"\n\n x"}|tool_calls)");
  EXPECT_EQ(
      parse("<tool_call><function=save_text><parameter=path>x</parameter><parameter=body>a b</parameter></function>"
            "</tool_call>"),
      R"(||save_text{"path":"x","body":"a b"}|tool_calls)");
}

TEST(OutputParser, PassesOverADoubledCloser) {
  const std::string doubled =
      "<tool_call>\n<function=book_seat>\n<parameter=row>\n12\n</parameter>\n<parameter=zip>\n02134\n";
  for (const char* closers : {"</parameter></parameter>\n", "</parameter>\n</parameter>\n"}) {
    EXPECT_EQ(parse(doubled + closers + "</function>\n</tool_call>"), "||" + kT01Result);
  }
}

TEST(OutputParser, TakesADeclaredFunctionWithoutWrapper) {
  const std::string bare =
      "<function=book_seat>\n" + parameter("row", "12") + parameter("zip", "02134") + "</function>";
  EXPECT_EQ(parse(bare), "||" + kT01Result);
  EXPECT_EQ(parse("So:\n" + bare + "\n</tool_call>\n"), "|So:|" + kT01Result);
  const std::string unknown = "<function=unknown_fn>\n" + parameter("row", "12") + "</function>";
  EXPECT_EQ(parse(unknown), "|" + unknown + "||stop");
  EXPECT_EQ(parse("Write <function=book_seat> first."), "|Write <function=book_seat> first.||stop");
  EXPECT_EQ(parse("Write <function=book_se"), "|Write <function=book_se||stop");
}

TEST(OutputParser, ACallCutByTheLimitKeepsItsFinishedArguments) {
  const std::string cut = kT01.substr(0, kT01.find("02134") + 3);
  EXPECT_EQ(parse(cut, kCut), R"(||!book_seat{"row":12}|length)");
  EXPECT_EQ(parse("Hm.\n<tool_call>\n<function=book_seat>\n<parame", kCut), "|Hm.|!book_seat{}|length");
  EXPECT_EQ(parse("Hm.\n<tool_call>\n<function=book_s", kCut), "|Hm.||length");
  EXPECT_EQ(parse("Hm.\n<tool_call>\n", kCut), "|Hm.||length");
  EXPECT_EQ(parse(kT01 + "\n<tool_call>\n<func", kCut), R"(||book_seat{"row":12,"zip":"02134"}|length)");
  EXPECT_EQ(parse("Hm.\n<tool_call>\n<fun", {.thinking = true, .cause = FinishCause::kLength}), "Hm.|||length");
  for (size_t length = 0; length < kT01.size(); ++length) {
    const Case one_case{.cause = FinishCause::kLength};
    const AssistantTurn turn = parse_pieces({std::string_view(kT01).substr(0, length)}, one_case);
    EXPECT_EQ(turn.finish_reason(one_case.cause), "length");
    for (const ToolCall& one : turn.calls) {
      EXPECT_TRUE(one.arguments == "{}" || one.arguments == R"({"row":12})" ||
                  one.arguments == R"({"row":12,"zip":"02134"})")
          << one.arguments;
    }
  }
}

TEST(OutputParser, ACallLeftOpenByTheModel) {
  EXPECT_EQ(parse("<tool_call>\n<function=book_seat>\n" + parameter("row", "1")), R"(||book_seat{"row":1}|tool_calls)");
  EXPECT_EQ(parse("<tool_call>\n<function=book_seat>\n" + parameter("row", "1") + "<parameter=zi"),
            R"(||!book_seat{"row":1}|stop)");
  EXPECT_EQ(parse("<tool_call>\n<function=book_seat>\n<parameter=row>\n1"), "||!book_seat{}|stop");
  EXPECT_EQ(parse("<tool_call>\n<function=book_seat>\n<parameter=row>\n1\n</param"), "||!book_seat{}|stop");
  EXPECT_EQ(parse("<tool_call>\n<function=book_seat>\n<parameter=row>\n1\n</parameter>\n</func"),
            R"(||book_seat{"row":1}|tool_calls)");
  EXPECT_EQ(parse("The tag is <tool_call>\n"), "|The tag is <tool_call>\n||stop");
  EXPECT_EQ(parse("The tag is <tool_call>\n<functi"), "|The tag is <tool_call>\n<functi||stop");
}

TEST(OutputParser, SeveralCallsKeepTheirOrder) {
  const std::string two = book(parameter("row", "1")) + "\n" + book(parameter("row", "2"));
  EXPECT_EQ(parse(two), R"(||book_seat{"row":1}book_seat{"row":2}|tool_calls)");
  const AssistantTurn turn = parse_pieces({two}, {});
  ASSERT_EQ(turn.calls.size(), 2U);
  EXPECT_NE(turn.calls[0].id, turn.calls[1].id);
  EXPECT_EQ(turn.calls[0].id, "call_000000000000000100000002");
  EXPECT_EQ(parse("<tool_call>\n<function=book_seat>\n" + parameter("row", "1") +
                  "</function>\n<function=save_text>\n" + parameter("path", "p") + "</function>\n</tool_call>"),
            R"(||book_seat{"row":1}save_text{"path":"p"}|tool_calls)");
  EXPECT_EQ(parse("<tool_call>\n<function=book_seat>\n" + parameter("row", "1") + book(parameter("row", "2"))),
            R"(||book_seat{"row":1}book_seat{"row":2}|tool_calls)");
}

TEST(OutputParser, TextAfterACallIsContent) {
  EXPECT_EQ(parse("a\n" + kT01 + "\n\nb\n"), "|a\n\nb\n|" + kT01Result);
  EXPECT_EQ(parse(kT01 + "\n b"), "|b|" + kT01Result);
  EXPECT_EQ(parse(kT01 + "\n\n"), "||" + kT01Result);
}

TEST(OutputParser, SplitsReasoningFromContent) {
  EXPECT_EQ(parse("\n x \n\n</think>\n\n y\n", kThinking), "x| y\n||stop");
  EXPECT_EQ(parse("<think>\nx</think>y</think>z", kThinking), "x|y</think>z||stop");
  EXPECT_EQ(parse(" <think>\nx<think></think>", kThinking), "x<think>|||stop");
  EXPECT_EQ(parse("only thoughts </thin", kThinking), "only thoughts </thin|||stop");
  EXPECT_EQ(parse("only thoughts \n", {.thinking = true, .cause = FinishCause::kLength}), "only thoughts|||length");
  EXPECT_EQ(parse("</think>\n\n" + kT01, kThinking), "||" + kT01Result);
  EXPECT_EQ(parse("x</think>\n\n", kThinking), "x|||stop");
}

TEST(OutputParser, WithThinkingOffTagsOfThoughtAreContent) {
  EXPECT_EQ(parse("<think>x</think>\n\ny"), "|<think>x</think>\n\ny||stop");
  EXPECT_EQ(parse(" \nx \n"), "| \nx \n||stop");
}

TEST(OutputParser, WithoutToolsTheirMarkupIsContent) {
  const Case off{.tools = false};
  EXPECT_EQ(parse("a\n" + kT01 + "\n", off), "|a\n" + kT01 + "\n||stop");
  EXPECT_EQ(parse("a\n</tool_call>\n", off), "|a\n</tool_call>\n||stop");
  EXPECT_EQ(parse("a\n" + kT01 + "</think>\nb", {.thinking = true, .tools = false}), "a\n" + kT01 + "|b||stop");
}

TEST(OutputParser, HandsOutContentAsItComes) {
  OutputParser parser(options_for({}));
  const auto first = parser.push("Hello <b>x</b> <");
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].text, "Hello <b>x</b>");
  const auto second = parser.push("tool_callers>");
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].text, " <tool_callers>");
  EXPECT_TRUE(parser.push("  <tool_call>\n<function=").empty());
  const auto begin = parser.push("book_seat>\n<parameter=row>\n1\n</parameter>\n<");
  ASSERT_EQ(begin.size(), 1U);
  EXPECT_EQ(begin[0].kind, ParserEvent::Kind::kCallBegin);
  EXPECT_EQ(begin[0].text, "book_seat");
  const auto rest = parser.push("/function>");
  ASSERT_EQ(rest.size(), 3U);
  EXPECT_EQ(rest[0].text, R"({"row":1)");
  EXPECT_EQ(rest[1].text, "}");
  EXPECT_TRUE(rest[2].complete);
}

TEST(OutputParser, UnknownFunctionsInTheWrapperHaveStrings) {
  EXPECT_EQ(parse(call("unknown_fn", parameter("row", "12"))), R"(||unknown_fn{"row":"12"}|tool_calls)");
  EXPECT_EQ(parse(call("free", parameter("row", "12"))), R"(||free{"row":"12"}|tool_calls)");
  EXPECT_EQ(parse(call("unknown_fn", "")), "||unknown_fn{}|tool_calls");
  EXPECT_EQ(parse("<tool_call>\n<function= book_seat >\n<parameter= row >\n1\n</parameter>\n</function>\n</tool_call>"),
            R"(||book_seat{"row":1}|tool_calls)");
}

TEST(OutputParser, NamesThatAreNoneMakeNoCall) {
  for (const std::string& name :
       {std::string(), std::string(" "), std::string("a<b"), std::string("a\nb"), std::string(300, 'n')}) {
    const std::string text = "<tool_call>\n<function=" + name + ">";
    EXPECT_EQ(parse(text), "|" + text + "||stop");
    EXPECT_EQ(parse(text, kThinking), text + "|||stop");
  }
}

TEST(OutputParser, TheFirstOfARepeatedKeyCounts) {
  EXPECT_EQ(parse(book(parameter("row", "1") + parameter("row", "2") + parameter("zip", "3"))),
            R"(||book_seat{"row":1,"zip":"3"}|tool_calls)");
}

TEST(OutputParser, PassesOverWhatIsNoParameter) {
  EXPECT_EQ(parse(book("junk <b> <parameter=>\n" + parameter("row", "1"))), R"(||book_seat{"row":1}|tool_calls)");
}

std::string saved(const std::string& body_json) {
  return "||save_text{\"body\":" + body_json + "}|tool_calls";
}

TEST(OutputParser, AValueMayHoldMarkup) {
  const std::vector<std::string> bodies = {
      "close with </parameter> please",
      "close with </parameter>\nplease",
      "a line </parameter>",
      "</function> ends it",
      "open with <tool_call> here",
      "open with <tool_call>\n",
      "a\n<parameter=unknown>\nb",
      "</tool_call>\nis the end",
      "x</tool_call>",
      "if (a < b && c <d) </p> </param",
      "</think> <think>",
      call("f", parameter("x", "1")),
      "One:\n" + call("f", parameter("x", "1")) + "\nTwo:\n" + call("save_text", parameter("body", "1")) + "\nEnd",
      "text starts with <tool_call><function= and no more",
  };
  for (const std::string& body : bodies) {
    EXPECT_EQ(parse(call("save_text", parameter("body", body))), saved(compact_json(body))) << body;
  }
}

TEST(OutputParser, MakesUpForMissingClosers) {
  const std::string head = "<tool_call>\n<function=save_text>\n<parameter=path>\np\n";
  const std::string expected = R"(||save_text{"path":"p","body":"b"}|tool_calls)";
  EXPECT_EQ(parse(head + parameter("body", "b") + "</function>\n</tool_call>"), expected);
  EXPECT_EQ(parse(head + "<parameter=body>\nb\n</function>\n</tool_call>"), expected);
  EXPECT_EQ(parse(head + "<parameter=body>\nb\n</function>"), expected);
  EXPECT_EQ(parse(head + "<parameter=body>\nb\n</tool_call>"), expected);
  EXPECT_EQ(parse(head + "<parameter=body>\nb\n</parameter>\n</tool_call>"), expected);
  EXPECT_EQ(parse(head + "<parameter=body>\nb\n</function>", kCut), R"(||!save_text{"path":"p"}|length)");
  EXPECT_EQ(parse(head + "</tool_call>\n" + kT01),
            R"(||save_text{"path":"p"}book_seat{"row":12,"zip":"02134"}|tool_calls)");
}

TEST(OutputParser, MakesTheAssistantMessage) {
  const AssistantTurn turn = parse_pieces({"hm</think>\n\n" + kT01}, kThinking);
  EXPECT_EQ(
      compact_json(turn.to_message(FinishCause::kStop)),
      R"({"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"call_000000000000000100000002",)"
      R"("type":"function","function":{"name":"book_seat","arguments":"{\"row\":12,\"zip\":\"02134\"}"}}]})");
  EXPECT_EQ(compact_json(parse_pieces({"hi"}, {}).to_message(FinishCause::kStop)),
            R"({"role":"assistant","content":"hi"})");
  EXPECT_EQ(compact_json(parse_pieces({"hi"}, kThinking).to_message(FinishCause::kStop)),
            R"({"role":"assistant","content":"","reasoning_content":"hi"})");
}

TEST(OutputParser, ACallLeftOpenIsInTheMessageOfACutTextOnly) {
  const std::string open = "<tool_call>\n<function=save_text>\n<parameter=path>\np";
  for (const auto& settings : {Case{}, kCut}) {
    const ordered_json message = parse_pieces({open}, settings).to_message(settings.cause);
    EXPECT_EQ(message.contains("tool_calls"), settings.cause == FinishCause::kLength) << compact_json(message);
    EXPECT_EQ(message["content"].is_null(), settings.cause == FinishCause::kLength) << compact_json(message);
  }
}

std::string parse_in_steps(std::string_view text, size_t step, bool thinking) {
  OutputParser parser(options_for({.thinking = thinking}));
  AssistantTurn turn;
  for (size_t at = 0; at < text.size(); at += step) turn.add(parser.push(text.substr(at, step)));
  turn.add(parser.finish(FinishCause::kStop));
  return summary(turn, FinishCause::kStop);
}

/// Repeats `unit` after `head`: 100 kB in steps of 1 and 7 bytes, `bytes` in steps of 4096 and all at once.
void expect_linear(std::string text, const std::string& unit, bool thinking, size_t bytes = 1000000) {
  const std::string name = text + unit;
  while (text.size() < 100000) text += unit;
  EXPECT_EQ(parse_in_steps(text, 1, thinking), parse_in_steps(text, 7, thinking)) << name;
  while (text.size() < bytes) text += unit;
  EXPECT_EQ(parse_in_steps(text, 4096, thinking), parse_in_steps(text, text.size(), thinking)) << name;
}

// Without linear time each of these takes hours, which the test's time limit turns into a failure.
TEST(OutputParser, HugeTextsTakeLinearTime) {
  expect_linear("", "<", false, 5000000);
  expect_linear("", "<", true);
  expect_linear("", " ", false);
  expect_linear("", " ", true);
  expect_linear("          ", "<thin", true);
  expect_linear("x<tool_call>", "\n", true);
  expect_linear("", "<tool_call>\n", false);
  expect_linear("", "<function=", false);
  expect_linear("", "<function=book_seat>\n", false);
}

TEST(OutputParser, HugeValuesTakeLinearTime) {
  const std::string head = "<tool_call>\n<function=save_text>\n<parameter=body>\n";
  expect_linear(head, "x", false, 5000000);
  expect_linear(head, "<", false, 5000000);
  expect_linear(head, "</parameter> ", false);
  expect_linear(head, "</parameter>\n", false);
  expect_linear(head + "</parameter>", " ", false);
  expect_linear(head, "\n<parameter=zzz", false);
  expect_linear(head, "<parameter=body>\n<tool_call><function=\n</parameter>\n", false);
  expect_linear(head, "\n</tool_call>\n</function>\n", false);
  expect_linear(head + "</parameter>", "<parameter=k", false);
}

}  // namespace
}  // namespace lily
