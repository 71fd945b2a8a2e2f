// What the parser's events look like on standard output that is no terminal.
#include <gtest/gtest.h>

#include "app/build_info.h"
#include "app/model_answer.h"
#include "app/sampling_flags.h"
#include "app/standard_streams.h"
#include "app/terminal.h"

namespace lily {
namespace {

using Kind = ParserEvent::Kind;

ParserEvent event(Kind kind, std::string text, bool complete = true) {
  return {.kind = kind, .text = std::move(text), .call_id = "call_x", .complete = complete};
}

std::string printed(AnswerPrinter::Options options, const std::vector<ParserEvent>& events) {
  testing::internal::CaptureStdout();
  AnswerPrinter printer(options);
  for (const ParserEvent& each : events) printer.add({each});
  printer.finish();
  return testing::internal::GetCapturedStdout();
}

TEST(AnswerPrinter, ReasoningIsLeftOutUnlessAskedFor) {
  const std::vector<ParserEvent> events = {event(Kind::kReasoning, "hm"), event(Kind::kReasoning, "m"),
                                           event(Kind::kContent, "yes"), event(Kind::kContent, " no")};
  EXPECT_EQ(printed({}, events), "yes no\n");
  EXPECT_EQ(printed({.show_reasoning = true}, events), "hmm\n\nyes no\n");
}

TEST(AnswerPrinter, TheLastLineEnds) {
  EXPECT_EQ(printed({}, {event(Kind::kContent, "a\n")}), "a\n");
  EXPECT_EQ(printed({}, {event(Kind::kContent, "a")}), "a\n");
  EXPECT_EQ(printed({}, {}), "");
}

TEST(AnswerPrinter, CallsHaveLinesOfTheirOwn) {
  EXPECT_EQ(printed({}, {event(Kind::kContent, "Let me look."), event(Kind::kCallBegin, "get_weather"),
                         event(Kind::kCallArguments, R"({"city":)"), event(Kind::kCallArguments, R"("Rome"})"),
                         event(Kind::kCallEnd, ""), event(Kind::kCallBegin, "add"), event(Kind::kCallArguments, "{}"),
                         event(Kind::kCallEnd, "", false)}),
            "Let me look.\n[tool call] get_weather {\"city\":\"Rome\"}\n[tool call] add {} (cut short)\n");
}

TEST(AnswerPrinter, ATerminalGetsNoControlCharacters) {
  const std::vector<ParserEvent> events = {event(Kind::kContent, "a\033[2Jb\tc\n")};
  EXPECT_EQ(printed({.for_terminal = true}, events), "a[2Jb\tc\n");
  EXPECT_EQ(printed({}, events), "a\033[2Jb\tc\n");
}

TEST(WithoutControls, KeepsTextAndDropsC0AndC1) {
  EXPECT_EQ(without_controls("é \u009b1m\r\b\x7f\n"), "é 1m\n");
}

TEST(ValidUtf8, ReplacesWhatIsBroken) {
  EXPECT_EQ(valid_utf8("aé"), "aé");
  EXPECT_EQ(valid_utf8("a\xff"
                       "b\xc3"),
            "a\uFFFDb\uFFFD");
}

TEST(SummaryLine, NamesCountsRatesAndTheEnd) {
  GenerateResult result;
  result.token_ids = {1, 2, 3};
  result.timings = {.cached_tokens = 4, .prefill_tokens = 10, .prefill_ms = 100, .decode_tokens = 2, .decode_ms = 1000};
  EXPECT_EQ(summary_line(result, "stop"), "prompt 14 tokens (4 kept), 100.0 tok/s; answer 3 tokens, 2.0 tok/s; stop");
  EXPECT_EQ(summary_line({}, "cancelled"), "prompt 0 tokens; answer 0 tokens; cancelled");
}

TEST(SamplingFlags, LogitBiasIsIdEqualsValue) {
  SamplingFlags flags;
  flags.logit_bias = {"5=-100", "7=1.5"};
  const Result<GenerateRequest> request = request_from(flags);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request.value().sampling.logit_bias, (std::vector<std::pair<uint32_t, double>>{{5, -100.0}, {7, 1.5}}));
  for (const char* bad : {"5", "=1", "x=1", "5=", "5=x", "-1=2", "5=1x", "99999999999=1"}) {
    flags.logit_bias = {bad};
    EXPECT_FALSE(request_from(flags).ok()) << bad;
  }
}

TEST(BuildInfo, TheDemoModelLiesBesideTheProgramOrInTheSourceTree) {
  const auto folders = demo_model_folders("/opt/x/bin/lily");
  ASSERT_EQ(folders.size(), 2U);
  EXPECT_EQ(folders[0], "/opt/x/share/lily/models/demo");
  EXPECT_EQ(folders[1], std::string(LILY_SOURCE_DIR) + "/models/demo");
  EXPECT_EQ(demo_model_folders({}).size(), 1U);
  EXPECT_FALSE(build_commit().empty());
}

}  // namespace
}  // namespace lily
