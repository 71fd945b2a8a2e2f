// From a rendered prompt to token ids. Control segments are added tokens, found by name; text never becomes one,
// whatever it spells. Rendering is chat_template.h's.
#pragma once

#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace lily {

/// Ids of the segments in order. Failure: a control token that the tokenizer does not have, by name.
Result<std::vector<TokenId>> encode_prompt(const Tokenizer& tokenizer, const std::vector<PromptSegment>& segments);

}  // namespace lily
