// Makes the messages that clients really send acceptable to the chat template, without losing a word of them. The
// template itself (chat_template.h) stays strict.
#pragma once

#include "base/result.h"
#include "text/json_text.h"

namespace lily {

/// Returns the messages with these repairs; a list that needs none comes back unchanged.
/// - role `developer` becomes `system`.
/// - System messages that are several or not first become one leading system message: their texts in order, joined by
/// an
///   empty line, blank ones left out.
/// - `arguments` of a tool call given as JSON text are parsed. Blank text and null are an empty object. What is no JSON
/// object
///   (a call that was cut) is kept as a call with the one parameter `arguments` holding the text, so that the
///   conversation can go on and the model sees what it wrote.
/// - An assistant's `reasoning` is copied to `reasoning_content` when that is missing or null.
/// Failure: not a list of objects, or a system message with media or unknown parts.
Result<ordered_json> normalize_messages(ordered_json messages);

}  // namespace lily
