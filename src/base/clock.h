// Monotonic time, in the units the rest of the program speaks.
#pragma once

#include <chrono>
#include <cstdint>

namespace lily {

/// A stopwatch that starts when it is made.
class Stopwatch {
 public:
  double elapsed_ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }
  void restart() { start_ = std::chrono::steady_clock::now(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace lily
