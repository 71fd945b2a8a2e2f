#include "base/log.h"

#include <atomic>
#include <cstdio>

namespace lily {
namespace {

std::atomic<LogLevel> current_level{LogLevel::kInfo};

}  // namespace

void set_log_level(LogLevel level) {
  current_level.store(level, std::memory_order_relaxed);
}
LogLevel log_level() {
  return current_level.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view message) {
  constexpr const char* kNames[] = {"error", "warning", "info", "debug"};
  const std::string line = fmt::format("lily: {}: {}\n", kNames[static_cast<int>(level)], message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace lily
