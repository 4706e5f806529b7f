#include "base/staged_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/renaming.h"

namespace autopar {

namespace fs = std::filesystem;

namespace {

constexpr unsigned all_modes = 07777;

/// What a new folder may have: no more than one that it replaces.
unsigned first_mode(const fs::path& place) {
  struct stat status {};
  return ::stat(place.c_str(), &status) == 0 ? (status.st_mode & 0777U) | 0700U : 0777U;
}

}  // namespace

StagedFolder::StagedFolder(fs::path place)
    : place_(std::move(place)), partial_(make_partial_folder(place_, first_mode(place_))) {}

StagedFolder::~StagedFolder() { remove_all_of(partial_.path); }

void StagedFolder::finish() const {
  check_interruption();
  sync_folder(partial_.path);
}

bool StagedFolder::take_free_place() const {
  const Renamed renamed = rename_to_free_name(partial_.path, place_);
  if (renamed == Renamed::gone) fail("{} was removed while it was written", path().string());
  if (renamed == Renamed::done) sync_folder(place_.parent_path());
  return renamed == Renamed::done;
}

void StagedFolder::publish() {
  finish();
  if (!take_free_place())
    fail("{} has appeared while it was to be written; it stays as it is: choose another folder",
         place_.string());
}

void StagedFolder::replace(const MayReplace& may_replace) {
  finish();
  constexpr int most_tries = 100;
  for (int tries = 0; tries < most_tries; ++tries)
    if (replace_once(may_replace)) return;
  fail("others replace {}, too, again and again; wait until they are done", place_.string());
}

bool StagedFolder::replace_once(const MayReplace& may_replace) const {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(place_, error))) return take_free_place();
  may_replace(place_);
  keep_mode();
  switch (exchange_names(partial_.path, place_)) {
    case Renamed::done:
      break;
    case Renamed::unsupported:
      return replace_by_steps(may_replace);
    default:
      return false;
  }
  try {
    may_replace(partial_.path);  // something may have come into it since
  } catch (...) {
    exchange_names(partial_.path, place_);
    throw;
  }
  sync_folder(place_.parent_path());
  return true;
}

bool StagedFolder::replace_by_steps(const MayReplace& may_replace) const {
  const fs::path replaced = replaced_path(place_, partial_.path);
  remove_all_of(replaced);  // of an earlier try: the place has another folder by now
  if (rename_to_free_name(place_, replaced) != Renamed::done) return false;
  try {
    may_replace(replaced);
    if (!take_free_place()) return false;
  } catch (...) {
    if (rename_to_free_name(replaced, place_) == Renamed::taken) remove_all_of(replaced);
    throw;
  }
  remove_all_of(replaced);
  return true;
}

void StagedFolder::keep_mode() const {
  struct stat status {};
  if (::stat(place_.c_str(), &status) != 0) return;
  if (::fchmod(partial_.descriptor.number(), status.st_mode & all_modes) != 0)
    fail("cannot give {} the mode of {}: {}", path().string(), place_.string(),
         std::strerror(errno));
}

}  // namespace autopar
