#pragma once

#include <cstdint>
#include <filesystem>

namespace autopar {

/// Memory that this process can still take, and what limits it.
struct FreeMemory {
  std::int64_t bytes = 0;
  const char* of = "";  ///< "the machine's memory", say
};

/// The least of what the machine has (what can be reclaimed and free swap count), the control
/// groups above this process (versions 1 and 2; the cache of files can be reclaimed). What cannot
/// be read limits nothing. `root`: where /proc and /sys are.
FreeMemory free_memory(const std::filesystem::path& root = "/");

/// What this process may still map: `ulimit -v`.
FreeMemory free_address_space();

}  // namespace autopar
