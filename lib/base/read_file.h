#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace autopar {

/// The bytes of a text: of a regular file, or of a pipe that somebody writes (a shell's
/// `<(command)`), which is read to its end, once. Nothing waits for a writer to come: a pipe that
/// has none is refused, and so are folders and devices. Failures are Errors; `words` is their
/// format, with {} for the file and for the cause.
std::string read_file(const std::filesystem::path& file,
                      std::string_view words = "cannot read {}: {}");

/// Throws Error where it is there and is no regular file, nor a link to one: opening a pipe may
/// wait for ever.
void check_regular_file(const std::filesystem::path& file);

}  // namespace autopar
