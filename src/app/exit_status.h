// How the program ends: exit statuses, and the way from a failure to one of them.
#pragma once

#include "base/error.h"
#include "base/result.h"

namespace lily {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;         // something failed while it ran
inline constexpr int kExitUnusable = 2;       // unusable input, options or environment
inline constexpr int kExitInterrupted = 130;  // Ctrl-C, as shells report it

/// The failure of the one thing the program was asked to do, as the Error that main() reports.
[[noreturn]] inline void raise_failure(const Failure& failure) {
  const bool param_named = failure.param.empty() || failure.message.find(failure.param) != std::string::npos;
  throw Error(failure.kind == FailureKind::kRuntime ? ErrorCode::kRuntime : ErrorCode::kUsage, "{}{}{}",
              param_named ? "" : failure.param, param_named ? "" : ": ", failure.message);
}

/// The value, or the failure raised.
template <typename T>
T value_or_raise(Result<T> result) {
  if (!result) raise_failure(result.failure());
  return std::move(result).value();
}

}  // namespace lily
