#include "model/tensor_names.h"

#include <fmt/format.h>

#include <initializer_list>

namespace lily {
namespace {

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (name.starts_with(prefix)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string canonical_name(std::string_view stored) {
  // Longer spellings first; each name loses at most one prefix.
  for (const std::string_view prefix :
       {"language_model.model.", "model.language_model.", "language_model.", "model."}) {
    if (stored.starts_with(prefix)) {
      return std::string(stored.substr(prefix.size()));
    }
  }
  return std::string(stored);
}

bool is_vision_tensor(std::string_view stored) {
  return starts_with_any(stored, {"vision_tower.", "model.visual.", "visual.", "model.vision_tower."});
}

bool is_mtp_tensor(std::string_view canonical) {
  return canonical.starts_with("mtp.");
}

std::string display_name(std::string_view canonical) {
  constexpr std::string_view kLayers = "layers.";
  constexpr std::string_view kMtp = "mtp.";
  if (canonical.starts_with(kMtp)) {
    return fmt::format("mtp {}", display_name(canonical.substr(kMtp.size())));
  }
  if (!canonical.starts_with(kLayers)) {
    return std::string(canonical);
  }
  canonical.remove_prefix(kLayers.size());
  const size_t dot = canonical.find('.');
  if (dot == std::string_view::npos) {
    return fmt::format("layer {}", canonical);
  }
  std::string_view rest = canonical.substr(dot + 1);
  if (rest.starts_with("mlp.")) {
    rest.remove_prefix(4);
  }
  return fmt::format("layer {} {}", canonical.substr(0, dot), rest);
}

}  // namespace lily
