// Token ids as people and files write them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lily {

/// Ids from a JSON array, or numbers separated by commas or white space. Nothing but white space is an empty list.
/// Failure: the first thing that is no id, and its place.
Result<std::vector<uint32_t>> parse_token_ids(std::string_view text);

/// Failure for the first id that is not below `vocabulary`.
Result<void> check_token_ids(std::span<const uint32_t> ids, uint32_t vocabulary);

}  // namespace lily
