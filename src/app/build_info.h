// What this build is and where its files lie.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lily {

std::string_view version_number();
/// The commit, "-modified" behind it when the tree had changes; "unknown" without git.
std::string_view build_commit();

/// The path of the running program; empty when the system does not tell.
std::filesystem::path executable_path();
/// Where the bundled demo model may be for a program at `executable`: the installed share folder, then the source tree.
std::vector<std::filesystem::path> demo_model_folders(const std::filesystem::path& executable);

}  // namespace lily
