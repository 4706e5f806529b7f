#pragma once

#include <filesystem>
#include <string>

namespace autopar {

/// XXH3-64 of a file's bytes in 16 hex digits. Throws Error where it cannot be read.
std::string xxh3_of_file(const std::filesystem::path& file);

}  // namespace autopar
