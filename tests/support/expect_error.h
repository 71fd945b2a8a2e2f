// Catches the Error that a call must throw, so that a test can look at its code and its sentence.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/error.h"

namespace lily::test {

struct CaughtError {
  ErrorCode code = ErrorCode::kRuntime;
  std::string text;
};

/// Runs `call`; fails the test when it throws no Error, or one whose message is not a single line.
template <typename Call>
CaughtError caught(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << '"' << text << "\" does not hold \"" << part << '"';
}

}  // namespace lily::test
