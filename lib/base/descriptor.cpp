#include "base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace autopar {
namespace {

/// Calls until no signal has broken it off.
template <typename Call>
auto unbroken(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace

int Descriptor::close() {
  if (number_ < 0) return 0;
  // On Linux it is closed after EINTR, too.
  const bool closed = ::close(std::exchange(number_, -1)) == 0 || errno == EINTR;
  return closed ? 0 : errno;
}

Descriptor open_file(const std::filesystem::path& path, int flags, unsigned mode) {
  return Descriptor(unbroken([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); }));
}

void write_all(const Descriptor& file, std::span<const std::byte> bytes,
               const std::filesystem::path& name) {
  while (!bytes.empty()) {
    const ssize_t written =
        unbroken([&] { return ::write(file.number(), bytes.data(), bytes.size()); });
    if (written < 0 && errno == EFAULT)
      fail("cannot write {}: a file that is copied there became shorter", name.string());
    if (written <= 0)
      fail("cannot write {}: {}; free some space or choose another place", name.string(),
           std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void sync_file(const Descriptor& file, const std::filesystem::path& name) {
  const int synced = unbroken([&] { return ::fsync(file.number()); });
  if (synced != 0 && errno != EINVAL && errno != EROFS)  // a pipe or a device
    fail("cannot write {} to its disk: {}; free some space or choose another place", name.string(),
         std::strerror(errno));
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor opened = open_file(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  if (!opened && errno != EACCES) fail("cannot open {}: {}", folder.string(), std::strerror(errno));
  if (!opened) return;
  const int synced = unbroken([&] { return ::fsync(opened.number()); });
  if (synced != 0 && errno != EINVAL && errno != ENOTSUP)
    fail("cannot write the names in {} to their disk: {}", folder.string(), std::strerror(errno));
}

}  // namespace autopar
