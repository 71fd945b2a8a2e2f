// Turns the bytes of tokens, as they come, into text that is valid UTF-8 at every step.
// Knows nothing of stop strings or tags: whoever looks for those holds text back on top.
#pragma once

#include <string>
#include <string_view>

namespace lily {

/// Pieces pushed in any portions give the text of one push of them all.
class StreamDecoder {
 public:
  /// The text that became certain: all but an unfinished character at the end (at most three bytes), impossible bytes
  /// as U+FFFD.
  std::string push(std::string_view bytes);

  /// The end of the stream: one U+FFFD for an unfinished character, else nothing. The decoder is then as new.
  std::string finish();

  /// Whether a character has begun and is not complete.
  bool has_partial() const { return !held_.empty(); }

 private:
  std::string held_;
};

}  // namespace lily
