// SHA-256 (FIPS 180-4) of small texts that are identified by their hash, such as a chat template. Not for secrets: no
// care is taken of timing.
#pragma once

#include <string>
#include <string_view>

namespace lily {

/// The digest as 64 lower-case hex digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace lily
