// Errors of the environment (file, checkpoint, device, memory) and of our own logic.
// Environment: throw Error. Expected failures (bad request, too long, cancelled): Result in result.h. Own bugs:
// LILY_CHECK aborts.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace lily {

/// What kind of environment failed; the command line maps every code to exit status 2 except kRuntime (1).
enum class ErrorCode {
  kIo,           // a file cannot be opened, read or written
  kCheckpoint,   // weights that are broken, incomplete or of an unsupported kind
  kConfig,       // config.json and friends
  kTokenizer,    // tokenizer.json and friends
  kUsage,        // command line or option values
  kMemory,       // does not fit
  kUnsupported,  // understood, but outside what this build can do
  kRuntime,      // a device or a computation failed while running
};

/// An environment failure with a one-sentence message: what was expected, what was found, and where.
class Error : public std::runtime_error {
 public:
  template <typename... Args>
  Error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

/// Prints `file:line: check failed: expression: message` and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& message);

}  // namespace lily

/// Aborts with a formatted message when an invariant of ours does not hold; on in every build.
#define LILY_CHECK(condition, ...)                                                      \
  do {                                                                                  \
    if (!(condition)) [[unlikely]]                                                      \
      ::lily::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
