// Standard input and output: whole inputs within a limit, and output that notices when its reader has gone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lily {

inline constexpr size_t kMaxInputBytes = size_t{256} << 20;

/// Writes all of it at once. When the reader has closed the pipe, this and every later call do nothing (see
/// output_closed()). Throws Error(kRuntime) when the text cannot be written for another reason.
void write_output(std::string_view text);
/// The reader of standard output has gone: nothing more is worth computing.
bool output_closed();

/// Opens /dev/null in the place of standard streams that are closed, so that no file opened later takes their numbers.
void open_missing_streams();
/// Writes a line on standard error. One that cannot be written is lost: there is nobody to tell.
void write_error_line(std::string_view line);

/// All of standard input, byte for byte. Throws Error(kIo) beyond kMaxInputBytes or when it cannot be read.
std::string read_input();
/// The file or pipe, or standard input for "-". Throws Error(kIo).
std::string read_input_file(const std::string& path);

/// The text with impossible UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace lily
