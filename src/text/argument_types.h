// Turns the raw text of a tool call's parameter into the JSON value that the tool's schema asks for. The model writes
// everything as text; only the schema tells 12 from "12".
#pragma once

#include <string_view>

#include "text/json_text.h"

namespace lily {

/// The value of `text` under `schema` (null pointer: none known). `root` is the object that "$ref": "#/..." points
/// into.
///
/// The alternatives are those of `type` (one or a list), anyOf, oneOf and allOf, in order; `nullable` adds null. The
/// exact text null is JSON null when null is among them; otherwise the first alternative that fits gives the value:
///   string   always fits: the text unchanged
///   integer  digits (all kept), also "5.0" and "1e3"; a fraction does not fit
///   number   any JSON number, as spelled
///   boolean  true or false in any case
///   object, array  JSON of that kind, else a Python literal of that kind
/// Without a type, an enum or const gives the member that the text spells. What fits nothing stays a string.
ordered_json coerce_argument(std::string_view text, const ordered_json* schema, const ordered_json& root);

}  // namespace lily
