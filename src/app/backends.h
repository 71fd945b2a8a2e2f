// Which backends this build has, and how one is made. backends.cpp is the only file that names them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace lily {

struct BackendOptions {
  std::string name = "auto";  // auto: the best of this build
  uint32_t threads = 0;       // CPU: 0 is one a physical core
  std::string simd;           // CPU: an instruction set level by name, empty for the best
};

/// Names that `--backend` takes besides auto.
std::vector<std::string> backend_names();
/// Throws Error(kUnsupported, kUsage) for a backend or level that this build or machine does not have.
std::unique_ptr<Backend> make_backend(const BackendOptions& options);
/// Instruction set levels of the CPU backend that this machine runs, best last.
std::vector<std::string> simd_level_names();

}  // namespace lily
