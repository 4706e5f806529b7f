#pragma once

#include <filesystem>

#include "base/interruption.h"

namespace autopar {

/// A folder that is filled beside its place ("out.partial-...") and moved there when it is whole.
/// Whatever is not moved is removed, after an interruption, too.
class StagedFolder {
 public:
  /// Throws Error where no folder can be made there.
  explicit StagedFolder(std::filesystem::path place);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Takes the place, and removes what was there once it has it. Throws Error where that fails;
  /// what was there is then there again.
  void publish();

 private:
  InterruptionGuard guard_;  // from before the folder is made until it is removed
  std::filesystem::path place_;
  std::filesystem::path path_;
};

}  // namespace autopar
