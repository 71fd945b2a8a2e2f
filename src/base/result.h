// Result<T>: a value, or an expected failure (bad request, prompt too long, cancelled) that a caller must look at.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"

namespace lily {

/// Why an expected failure happened; the HTTP layer maps these to status codes.
enum class FailureKind { kInvalid, kTooLong, kCancelled, kNotFound, kBusy, kRuntime };

/// An expected failure: one clear sentence, and the parameter it is about where there is one.
struct Failure {
  FailureKind kind = FailureKind::kInvalid;
  std::string message;
  std::string param;  // name of the offending field, empty when none
};

/// Builds a Failure of kind kInvalid from a format string.
template <typename... Args>
Failure invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {FailureKind::kInvalid, fmt::format(format, std::forward<Args>(args)...), {}};
}

/// A value of type T or a Failure. value() on a failure is a bug of ours and aborts.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Failure failure)
      : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    LILY_CHECK(ok(), "value() of a failure: {}", failure().message);
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    LILY_CHECK(ok(), "value() of a failure: {}", failure().message);
    return *std::get_if<0>(&state_);
  }
  T value() && {
    LILY_CHECK(ok(), "value() of a failure: {}", failure().message);
    return std::move(*std::get_if<0>(&state_));
  }
  const Failure& failure() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Failure> state_;
};

/// Success without a value, or a Failure.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : failure_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return !failure_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Failure& failure() const { return *failure_; }

 private:
  std::optional<Failure> failure_;
};

}  // namespace lily
