#include "text/prompt_encoder.h"

#include <optional>

namespace lily {

Result<std::vector<TokenId>> encode_prompt(const Tokenizer& tokenizer, const std::vector<PromptSegment>& segments) {
  std::vector<TokenId> ids;
  for (const PromptSegment& segment : segments) {
    if (segment.control) {
      const std::optional<TokenId> id = tokenizer.find_added(segment.text);
      if (!id) return invalid("the tokenizer has no token {}, which the chat template needs", segment.text);
      ids.push_back(*id);
      continue;
    }
    const std::vector<TokenId> text = tokenizer.encode(segment.text, AddedTokens::kForbid);
    ids.insert(ids.end(), text.begin(), text.end());
  }
  return ids;
}

}  // namespace lily
