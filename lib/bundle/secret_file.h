#pragma once

#include <filesystem>
#include <string>

namespace autopar::bundle {

/// What ranks of a bundle prove to each other that they know, drawn when it is written, lies in its
/// folder. Its owner alone may read it.
inline constexpr const char* secret_file = "secret";

/// Draws a secret and writes it into the folder. Throws Error where that fails.
void write_secret(const std::filesystem::path& folder);

/// The first line of a file. Throws Error where it cannot be read or is too short to be a secret.
std::string read_secret(const std::filesystem::path& file);

/// Throws Error, with where it is from, where a secret is too short to withstand guesses.
void check_secret(const std::string& secret, const std::string& source);

}  // namespace autopar::bundle
