#include "base/partial_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/renaming.h"

namespace autopar {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view partial_mark = ".partial-";
constexpr std::string_view replaced_mark = ".replaced-";
constexpr std::size_t id_digits = 16;
/// With a mark and an id, a name stays below 255 bytes.
constexpr std::size_t most_of_name = 200;
/// No writer leaves its files alone for so long.
constexpr auto surely_dead = std::chrono::hours(24);

std::string marked_name(const fs::path& place, std::string_view mark) {
  return place.filename().string().substr(0, most_of_name).append(mark);
}

/// The id in a name that begins with `start`, if it is one of ours.
std::optional<std::string> id_in(const std::string& name, const std::string& start) {
  if (!name.starts_with(start) || name.size() != start.size() + id_digits) return std::nullopt;
  std::string id = name.substr(start.size());
  const bool is_id = id.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_id ? std::optional(id) : std::nullopt;
}

std::string new_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

enum class Lock { taken, held_by_other, unknown };

Lock try_lock(const Descriptor& file) {
  while (::flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Lock::held_by_other;
    if (errno != EINTR) return Lock::unknown;  // NFS locks no folders
  }
  return Lock::taken;
}

/// Whether all who can write there see each other's locks.
bool is_of_this_machine_alone(const Descriptor& file) {
  constexpr decltype(statfs::f_type) local[] = {
      EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
      F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, 0x2fc12fc1 /* ZFS */};
  struct statfs status {};
  return ::fstatfs(file.number(), &status) == 0 &&
         std::ranges::find(local, status.f_type) != std::end(local);
}

/// The file or folder of that path that a dead process left, locked; not open where it is none, or
/// alive.
Descriptor opened_if_dead(const fs::path& path) {
  Descriptor file = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file) return file;
  const Lock lock = try_lock(file);
  if (lock == Lock::held_by_other) return {};
  if (lock == Lock::taken && is_of_this_machine_alone(file)) return file;
  std::error_code error;
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(path, error);
  return !error && age > surely_dead ? std::move(file) : Descriptor();
}

/// Whether it still has its name: one who takes it for a dead process' removes it between its
/// making and its locking.
bool has_name(const Descriptor& file, const fs::path& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(file.number(), &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

/// Whether the file is ours: others who see each other's locks know then that it is written.
bool is_claimed(const Descriptor& file, const fs::path& path) {
  const Lock lock = try_lock(file);
  if (lock == Lock::unknown && is_of_this_machine_alone(file))
    fail("cannot lock {}: {}", path.string(), std::strerror(errno));
  return lock != Lock::held_by_other && has_name(file, path);
}

/// `make(path)` makes a file or folder of that path and opens it, unless something has it (EEXIST).
template <typename Make>
PartialFile make_partial(const fs::path& place, const Make& make) {
  std::error_code error;
  const fs::path folder = place.has_parent_path() ? place.parent_path() : ".";
  if (!fs::is_directory(folder, error))
    fail("{} cannot be written: there is no folder {}; make it first", place.string(),
         folder.string());
  const std::string start = marked_name(place, partial_mark);
  // One who sweeps may take it away again and again, but some folders take no new names: /proc.
  constexpr int most_tries = 100;
  for (int tries = 1;; ++tries) {
    fs::path path = place.parent_path() / (start + new_id());
    Descriptor file = make(path);
    if (!file && (tries == most_tries || (errno != EEXIST && errno != ENOENT)))
      fail("{} cannot be written: {}; choose another place", place.string(), std::strerror(errno));
    if (!file) continue;
    try {
      if (is_claimed(file, path)) return {std::move(path), std::move(file)};
    } catch (...) {
      fs::remove(path, error);
      throw;
    }
  }
}

/// What a folder has; nothing where it cannot be read. std::filesystem's iterators would end the
/// process where there is no memory.
std::vector<std::string> names_in(const fs::path& folder) {
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(folder.c_str()), close);
  std::vector<std::string> names;
  if (!open) return names;
  while (const dirent* entry = ::readdir(open.get())) names.emplace_back(entry->d_name);
  return names;
}

/// By id, what lies beside a place under a mark.
std::vector<std::string> ids_beside(const fs::path& place, std::string_view mark) {
  const std::string start = marked_name(place, mark);
  std::vector<std::string> ids;
  for (const std::string& name : names_in(place.has_parent_path() ? place.parent_path() : "."))
    if (auto id = id_in(name, start)) ids.push_back(*std::move(id));
  return ids;
}

fs::path marked_path(const fs::path& place, std::string_view mark, const std::string& id) {
  return place.parent_path() / (marked_name(place, mark) + id);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

}  // namespace

fs::path place_of_folder(const fs::path& folder) {
  std::error_code error;
  fs::path place = fs::absolute(folder, error);
  if (!error) place = fs::weakly_canonical(place, error);
  if (error) fail("'{}' cannot be a folder: {}", folder.string(), error.message());
  return place.has_filename() ? place : place.parent_path();
}

PartialFile make_partial_folder(const fs::path& place, unsigned mode) {
  return make_partial(place, [mode](const fs::path& path) {
    if (::mkdir(path.c_str(), mode) != 0) return Descriptor();
    Descriptor folder = open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    const int error = errno;
    if (!folder) ::rmdir(path.c_str());
    errno = error;
    return folder;
  });
}

PartialFile make_partial_file(const fs::path& place, unsigned mode) {
  return make_partial(place, [mode](const fs::path& path) {
    return open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  });
}

fs::path replaced_path(const fs::path& place, const fs::path& partial) {
  const auto id = id_in(partial.filename().string(), marked_name(place, partial_mark));
  require(id.has_value(), "a partial file has the name that it was given");
  return marked_path(place, replaced_mark, *id);
}

void remove_all_of(const fs::path& path) noexcept {
  constexpr int most_tries = 3;
  std::error_code error;
  for (int tries = 0; tries < most_tries; ++tries) {
    try {
      fs::remove_all(path, error);
      if (!error) return;
    } catch (const std::bad_alloc&) {  // there may be some the next time
    }
  }
}

void put_back_replaced(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::exists(folder, error)) return;
  const fs::path place = place_of_folder(folder);
  if (is_there(place)) return;
  for (const std::string& id : ids_beside(place, replaced_mark)) {
    // One who is just replacing it finds the name taken and begins anew.
    const Renamed renamed = rename_to_free_name(marked_path(place, replaced_mark, id), place);
    if (renamed == Renamed::gone) continue;
    if (renamed == Renamed::done) sync_folder(place.parent_path());
    return;
  }
}

void sweep_partial_files(const fs::path& place) {
  for (const std::string& id : ids_beside(place, replaced_mark)) {
    const bool is_replaced = !is_there(marked_path(place, partial_mark, id)) && is_there(place);
    if (is_replaced) remove_all_of(marked_path(place, replaced_mark, id));
  }
  for (const std::string& id : ids_beside(place, partial_mark)) {
    const fs::path path = marked_path(place, partial_mark, id);
    const Descriptor dead = opened_if_dead(path);
    if (!dead) continue;
    const fs::path replaced = marked_path(place, replaced_mark, id);
    if (is_there(replaced) && !is_there(place)) continue;  // it is put back first
    remove_all_of(replaced);
    remove_all_of(path);
  }
}

void sweep_partial_files_in(const fs::path& folder) {
  std::vector<fs::path> places;
  for (const std::string& name : names_in(folder)) {
    const std::size_t mark = name.rfind(partial_mark);
    if (mark != 0 && mark != std::string::npos) places.push_back(folder / name.substr(0, mark));
  }
  for (const fs::path& place : places) sweep_partial_files(place);
}

}  // namespace autopar
