#include "app/build_info.h"

#include <system_error>

#include "app/version.h"

#ifdef __APPLE__
#include <mach-o/dyld.h>

#include <cstdint>
#endif

namespace lily {

std::string_view version_number() {
  return LILY_VERSION;
}

std::string_view build_commit() {
  return LILY_COMMIT;
}

std::filesystem::path executable_path() {
  std::error_code error;
#ifdef __APPLE__
  std::string path(4096, '\0');
  auto size = static_cast<uint32_t>(path.size());
  if (_NSGetExecutablePath(path.data(), &size) != 0) return {};
  return std::filesystem::canonical(path.c_str(), error);
#else
  return std::filesystem::read_symlink("/proc/self/exe", error);
#endif
}

std::vector<std::filesystem::path> demo_model_folders(const std::filesystem::path& executable) {
  std::vector<std::filesystem::path> folders;
  if (executable.has_parent_path()) {
    folders.push_back((executable.parent_path() / LILY_SHARE_FROM_BIN / "models/demo").lexically_normal());
  }
  folders.push_back(std::filesystem::path(LILY_SOURCE_TREE) / "models/demo");
  return folders;
}

}  // namespace lily
