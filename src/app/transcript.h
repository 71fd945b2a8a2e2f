// A conversation as a JSON file: what `/save` writes and `/load` reads.
//
// {"format": "lily-transcript", "version": 1, "model": FOLDER, "saved": UTC TIME,
//  "settings": {"thinking": true, "preserve_thinking": true},
//  "messages": [{"role", "content", "reasoning_content"?, "tool_calls"?}, ...]}     a system message comes first
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "text/json_text.h"

namespace lily {

struct Transcript {
  std::string model;
  bool thinking = true;
  bool preserve_thinking = true;
  ordered_json messages = ordered_json::array();
};

/// The file's text, a line a message. `saved` is the time written into it.
std::string transcript_text(const Transcript& transcript, const std::string& saved);
/// A transcript, or a bare list of messages; messages are repaired as the server's are. Unknown fields are ignored.
Result<Transcript> parse_transcript(std::string_view text);

/// Replaces the file as a whole, readable by its owner alone. Failure: it cannot be written, or it exists and does not
/// name our format.
Result<void> save_transcript(const Transcript& transcript, const std::filesystem::path& file);
Result<Transcript> load_transcript(const std::filesystem::path& file);

}  // namespace lily
