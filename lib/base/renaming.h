#pragma once

#include <filesystem>

namespace autopar {

/// How a rename went.
enum class Renamed {
  done,
  taken,        ///< something has the name
  gone,         ///< what is to be renamed is not there
  unsupported,  ///< by the file system
};

/// Gives a file or folder a name that nothing has, whatever other processes do meanwhile: of
/// several who want a name one gets it. Throws Error for what is neither done, nor taken, nor gone.
Renamed rename_to_free_name(const std::filesystem::path& from, const std::filesystem::path& to);

/// Exchanges two names of one folder in one step: at no time has either none. Throws Error for what
/// is neither done, nor gone (either of them), nor unsupported.
Renamed exchange_names(const std::filesystem::path& one, const std::filesystem::path& other);

}  // namespace autopar
