#pragma once

#include <filesystem>
#include <string>

namespace autopar {

/// A new, empty folder, removed with everything in it at the end. Its name is taken by nothing
/// else, not even by what a process with the same number left when it crashed.
class TemporaryFolder {
 public:
  /// Under `parent`, or, where that is empty, the system's folder for such (TMPDIR); throws Error
  /// if it cannot be made there.
  explicit TemporaryFolder(std::filesystem::path parent = {});
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  friend std::filesystem::path operator/(const TemporaryFolder& folder, const std::string& name) {
    return folder.path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace autopar
