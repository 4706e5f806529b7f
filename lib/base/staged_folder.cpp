#include "base/staged_folder.h"

#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace autopar {

namespace fs = std::filesystem;

namespace {

/// Makes a folder of a name that nobody has: other processes, perhaps on other machines, may write
/// beside the same place, and one that was killed may have left its folder.
fs::path make_folder_beside(const fs::path& place) {
  const std::string name = place.string() + ".partial-" + std::to_string(getpid());
  fs::path path = name;
  std::error_code error;
  for (int other = 1; !fs::create_directory(path, error); ++other) {
    if (error) fail("cannot make folder {}: {}", path.string(), error.message());
    path = name + "-" + std::to_string(other);
  }
  return path;
}

}  // namespace

StagedFolder::StagedFolder(fs::path place)
    : place_(std::move(place)), path_(make_folder_beside(place_)) {}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void StagedFolder::publish() {
  check_interruption();
  const fs::path replaced = path_.string() + ".old";
  std::error_code error;
  fs::rename(place_, replaced, error);
  const bool replaces = !error;
  if (error == std::errc::no_such_file_or_directory) error.clear();
  if (!error) fs::rename(path_, place_, error);
  if (error) {
    std::error_code ignored;
    if (replaces) fs::rename(replaced, place_, ignored);
    fail("cannot move the bundle to {}: {}", place_.string(), error.message());
  }
  if (replaces) fs::remove_all(replaced, error);
}

}  // namespace autopar
