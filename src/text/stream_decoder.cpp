#include "text/stream_decoder.h"

#include "text/unicode.h"

namespace lily {

std::string StreamDecoder::push(std::string_view bytes) {
  std::string text;
  held_ += bytes;
  held_.erase(0, append_complete_utf8(held_, text));
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = replace_invalid_utf8(held_);
  held_.clear();
  return text;
}

}  // namespace lily
