#include "base/renaming.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace autopar {
namespace {

namespace fs = std::filesystem;

bool is_unsupported(int error) {
  return error == EINVAL || error == ENOSYS || error == ENOTSUP || error == EOPNOTSUPP;
}

[[noreturn]] void fail_to_rename(const fs::path& from, const fs::path& to, int error) {
  fail("cannot rename {} to {}: {}", from.string(), to.string(), std::strerror(error));
}

/// Where the file system has no such rename. A file gets a second name, which fails where something
/// has it, and loses the first. A folder is renamed as ever, which fails where something has the
/// name but an empty folder: one that somebody makes at this moment is lost, and nothing in it.
int rename_by_steps(const fs::path& from, const fs::path& to) {
  struct stat status {};
  if (::lstat(from.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) {
    struct stat other {};
    if (::lstat(to.c_str(), &other) == 0) return EEXIST;
    return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  }
  if (::link(from.c_str(), to.c_str()) != 0) return errno;
  return ::unlink(from.c_str()) == 0 ? 0 : errno;
}

}  // namespace

Renamed rename_to_free_name(const fs::path& from, const fs::path& to) {
  int error = 0;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0)
    error = errno;
  if (is_unsupported(error)) error = rename_by_steps(from, to);
  if (error == 0) return Renamed::done;
  if (error == EEXIST || error == ENOTEMPTY || error == ENOTDIR) return Renamed::taken;
  struct stat status {};
  if (error == ENOENT && ::lstat(from.c_str(), &status) != 0) return Renamed::gone;
  fail_to_rename(from, to, error);
}

Renamed exchange_names(const fs::path& one, const fs::path& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0)
    return Renamed::done;
  if (errno == ENOENT) return Renamed::gone;
  if (is_unsupported(errno)) return Renamed::unsupported;
  fail_to_rename(one, other, errno);
}

}  // namespace autopar
