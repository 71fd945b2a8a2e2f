#include "engine/stop_strings.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace lily {
namespace {

TEST(StopStrings, PassesTextThroughWhenThereAreNone) {
  StopStrings stops({});
  EXPECT_EQ(stops.push("anything"), "anything");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, HoldsBackOnlyWhatMayBeginAStopString) {
  StopStrings stops({"\n\nUser:"});
  EXPECT_EQ(stops.push("done\n"), "done");
  EXPECT_EQ(stops.push("more"), "\nmore");
  EXPECT_EQ(stops.push("\n\nUse"), "");
  EXPECT_EQ(stops.push("r:ignored"), "");
  EXPECT_EQ(stops.matched(), 0U);
  EXPECT_EQ(stops.push("after"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, GivesBackTheHeldTextAtTheEnd) {
  StopStrings stops({"abcd"});
  EXPECT_EQ(stops.push("xabc"), "x");
  EXPECT_EQ(stops.finish(), "abc");
  EXPECT_FALSE(stops.matched());
}

TEST(StopStrings, FindsAMatchInsideAFalseStart) {
  StopStrings stops({"aab"});
  EXPECT_EQ(stops.push("aaa"), "a");
  EXPECT_EQ(stops.push("ab"), "a") << "the match is the end of aaaab";
  EXPECT_TRUE(stops.matched());
}

TEST(StopStrings, TheMatchThatEndsFirstWinsAndThenTheLongest) {
  StopStrings first({"abc", "b"});
  EXPECT_EQ(first.push("xabc"), "xa");
  EXPECT_EQ(first.matched(), 1U);
  StopStrings longest({"c", "abc"});
  EXPECT_EQ(longest.push("xabc"), "x");
  EXPECT_EQ(longest.matched(), 1U);
}

TEST(StopStrings, EveryCutOfTheTextGivesTheSameResult) {
  auto random = [engine = std::mt19937(3)]() mutable { return static_cast<uint32_t>(engine()); };
  for (int round = 0; round < 500; ++round) {
    const auto word = [&](uint32_t length) {
      std::string text;
      for (uint32_t i = 0; i < length; ++i) {
        text += static_cast<char>('a' + (random() % 2));
      }
      return text;
    };
    std::vector<std::string> strings;
    for (uint32_t i = 0; i < 1 + (random() % 3); ++i) {
      strings.push_back(word(3 + (random() % 4)));
    }
    const std::string text = word(24);
    StopStrings whole(strings);
    std::string expected = whole.push(text);
    expected += whole.finish();
    StopStrings cut(strings);
    std::string got;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + (random() % 5);
      got += cut.push(text.substr(at, length));
      at += length;
    }
    got += cut.finish();
    ASSERT_EQ(got, expected) << text;
    ASSERT_EQ(cut.matched(), whole.matched()) << text;
    if (!whole.matched()) {
      ASSERT_EQ(expected, text);
    } else {
      ASSERT_TRUE(text.starts_with(expected + strings[*whole.matched()])) << text;
    }
  }
}

}  // namespace
}  // namespace lily
