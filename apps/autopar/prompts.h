#pragma once

#include <filesystem>
#include <istream>
#include <string>
#include <vector>

#include "runtime/decoding/generation.h"

namespace autopar {

/// Prompts as numbers of tokens: a prompt a line, with spaces, tabs or commas between. Throws
/// Error, all that is wrong at once, with the line's number: for what is no such number, lines
/// without one, and no line at all. `name` is what is read.
std::vector<runtime::TokenIds> read_prompts(std::istream& lines, const std::string& name);

/// The same of a file; "-" is standard input.
std::vector<runtime::TokenIds> read_prompts(const std::filesystem::path& file);

}  // namespace autopar
