#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace lily {

void check_failed(const char* file, int line, const char* expression, const std::string& message) {
  std::fprintf(stderr, "lily: %s:%d: check failed: %s: %s\n", file, line, expression, message.c_str());
  std::abort();
}

}  // namespace lily
