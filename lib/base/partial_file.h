#pragma once

#include <filesystem>

#include "base/descriptor.h"

/// What is written beside its place until it is whole: "out.partial-0123456789abcdef", locked
/// (flock) by the process that writes it. What is not locked was left by a process that is dead. On
/// file systems that other machines may write to, too, which may not show each other's locks, it
/// must not have changed for a day, either.
namespace autopar {

/// A folder's path without "..", symbolic links and a slash at its end. Throws Error where it can
/// be no folder's.
std::filesystem::path place_of_folder(const std::filesystem::path& folder);

struct PartialFile {
  std::filesystem::path path{};
  Descriptor descriptor{};  ///< has the lock; of a file, for writing
};

/// A new, empty folder beside a place; throws Error where it cannot be made.
PartialFile make_partial_folder(const std::filesystem::path& place, unsigned mode);
/// A new, empty file beside a place; throws Error where it cannot be made.
PartialFile make_partial_file(const std::filesystem::path& place, unsigned mode);

/// The name for what is replaced, until the new one has its place ("out.replaced-..."), where the
/// two cannot change places in one step; `partial` is the new one's.
std::filesystem::path replaced_path(const std::filesystem::path& place,
                                    const std::filesystem::path& partial);

/// Where nothing is at a folder's place, since a process died that was replacing it by steps: puts
/// back what was there. Throws Error where that fails.
void put_back_replaced(const std::filesystem::path& folder);

/// Removes a file or a folder with all that is in it, if it is there, in several tries; what cannot
/// be removed stays.
void remove_all_of(const std::filesystem::path& path) noexcept;

/// Removes what dead processes left beside a place; what cannot be removed stays.
void sweep_partial_files(const std::filesystem::path& place);
/// The same beside all places of a folder.
void sweep_partial_files_in(const std::filesystem::path& folder);

}  // namespace autopar
