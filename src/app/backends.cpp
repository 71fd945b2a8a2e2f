#include "app/backends.h"

#include <fmt/ranges.h>

#include <optional>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"

namespace lily {
namespace {

std::optional<SimdLevel> simd_level(const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kNeon, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (simd_level_name(level) == name) return level;
  }
  throw Error(ErrorCode::kUsage, "--simd {}: no such level, this machine has {}", name,
              fmt::join(simd_level_names(), ", "));
}

}  // namespace

std::vector<std::string> backend_names() {
  return {"cpu"};
}

std::vector<std::string> simd_level_names() {
  std::vector<std::string> names;
  for (const SimdLevel level : available_simd_levels()) names.emplace_back(simd_level_name(level));
  return names;
}

std::unique_ptr<Backend> make_backend(const BackendOptions& options) {
  if (options.name != "auto" && options.name != "cpu") {
    throw Error(ErrorCode::kUnsupported, "--backend {}: not in this build, which has {}", options.name,
                fmt::join(backend_names(), ", "));
  }
  return make_cpu_backend({.threads = options.threads, .simd_level = simd_level(options.simd)});
}

}  // namespace lily
