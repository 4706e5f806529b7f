#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace autopar {

/// While one exists, reads of a mapped file beyond what the file still has do not end the process
/// (SIGBUS): a file may be truncated, or its disk fail, while it is mapped. They give zeros from
/// then on, and the mapping counts as cut, which check_mapped_files() tells (mapped_file_checks.h).
class BusGuard {
 public:
  /// Guards a mapping, which outlives this. The first one installs the process' handler; other
  /// faults go to the one that was there before.
  BusGuard(std::span<const std::byte> mapping, std::filesystem::path file);
  ~BusGuard();
  BusGuard(const BusGuard&) = delete;
  BusGuard& operator=(const BusGuard&) = delete;

  bool is_cut() const;

 private:
  struct Entry;
  struct Entries;
  friend void check_mapped_files();

  Entry* entry_ = nullptr;
  std::filesystem::path file_;
};
}  // namespace autopar
