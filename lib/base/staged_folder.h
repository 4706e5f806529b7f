#pragma once

#include <filesystem>
#include <functional>

#include "base/interruption.h"
#include "base/partial_file.h"

namespace autopar {

/// A folder that is filled beside its place ("out.partial-...") and moved there when it is whole
/// and on its disk. Whatever is not moved is removed, after an interruption, too. Those who fill it
/// write each file to its disk.
class StagedFolder {
 public:
  /// Throws Error where no folder can be made there. None but those who may enter a folder that is
  /// at the place may enter this one.
  explicit StagedFolder(std::filesystem::path place);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::filesystem::path& path() const { return partial_.path; }

  /// Takes the place, which has to be free: of several who want it one gets it. Throws Error where
  /// it is not; what is there stays as it is.
  void publish();

  /// Throws Error where a folder, of this path now, may not be replaced.
  using MayReplace = std::function<void(const std::filesystem::path&)>;
  /// Takes the place of a folder, if there is one, and its mode, and removes it. Where the file
  /// system can exchange names, the place has one or the other folder whole at all times; else it
  /// has none for a moment, and put_back_replaced helps if that was the last one. Throws Error
  /// where that fails; what was there is then there again.
  void replace(const MayReplace& may_replace);

 private:
  void finish() const;
  /// Takes the place if it is free.
  bool take_free_place() const;
  /// Whether it has the place; else the place has changed meanwhile.
  bool replace_once(const MayReplace& may_replace) const;
  bool replace_by_steps(const MayReplace& may_replace) const;
  void keep_mode() const;

  InterruptionGuard guard_;  // from before the folder is made until it is removed
  std::filesystem::path place_;
  PartialFile partial_;
};

}  // namespace autopar
