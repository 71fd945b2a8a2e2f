// Seeded damage to JSON-like text: the same seed always makes the same text, so a failure can be replayed.
#pragma once

#include <cstdint>
#include <string>

namespace lily::test {

/// Applies one to four random edits: flipped bits, replaced or removed or repeated spans, numbers exchanged for extreme
/// ones.
std::string mutated(std::string text, uint64_t seed);

}  // namespace lily::test
