#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <tuple>

#include "base/bus_guard.h"
#include "base/error.h"
#include "base/mapped_file_checks.h"

namespace autopar {
namespace {

/// A file on a device, and its length when it was mapped.
using Identity = std::tuple<dev_t, ino_t, off_t>;

Identity identity_in(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_size};
}

/// A mapped file as it was then.
class Watch {
 public:
  Watch(const std::filesystem::path& path, std::span<const std::byte> bytes,
        const struct stat& status)
      : path_(path),
        identity_(identity_in(status)),
        written_(status.st_mtim),
        guard_(bytes, path) {}

  bool is_cut() const { return guard_.is_cut(); }
  /// Throws Error where the file has another length, or was written, since.
  void check() const {
    struct stat status {};
    if (::stat(path_.c_str(), &status) != 0) return;
    const auto& [device, number, bytes] = identity_;
    // Another file of that path leaves this one as it is.
    if (status.st_dev != device || status.st_ino != number) return;
    if (status.st_size != bytes || status.st_mtim.tv_sec != written_.tv_sec ||
        status.st_mtim.tv_nsec != written_.tv_nsec)
      fail("{} was changed while it was read: leave it alone, and start again", path_.string());
  }

 private:
  std::filesystem::path path_;
  Identity identity_;
  timespec written_;
  BusGuard guard_;
};

/// All mapped files are watched, from when they are mapped until they are no more.
class Watches {
 public:
  static Watches& get() {
    static auto& watches = *new Watches;  // files may be unmapped when the process ends
    return watches;
  }

  void add(const MappedFile* file, const std::filesystem::path& path, const struct stat& status) {
    const std::lock_guard lock(mutex_);
    by_file_.try_emplace(file, path, file->bytes(), status);
  }
  void remove(const MappedFile* file) {
    const std::lock_guard lock(mutex_);
    by_file_.erase(file);
  }
  bool is_cut(const MappedFile& file) {
    const std::lock_guard lock(mutex_);
    const auto found = by_file_.find(&file);
    return found != by_file_.end() && found->second.is_cut();
  }
  void check() {
    const std::lock_guard lock(mutex_);
    for (const auto& [file, watch] : by_file_) watch.check();
  }

 private:
  std::mutex mutex_;
  std::map<const MappedFile*, Watch> by_file_;
};

/// The mappings that there are. They show the file as it is, so one serves all who open it.
class Mappings {
 public:
  /// The mapping of that file, or the one that `make` gives.
  template <typename Make>
  std::shared_ptr<const MappedFile> find(const Identity& identity, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(by_identity_, [](const auto& each) { return each.second.expired(); });
    if (const auto found = by_identity_.find(identity); found != by_identity_.end())
      if (auto mapping = found->second.lock(); mapping && !Watches::get().is_cut(*mapping))
        return mapping;
    std::shared_ptr<const MappedFile> made = make();
    if (made) by_identity_[identity] = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<Identity, std::weak_ptr<const MappedFile>> by_identity_;
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const auto refuse = [&path](const char* why) { fail("cannot read {}: {}", path.string(), why); };
  // Without O_NONBLOCK a pipe would be waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) refuse(std::strerror(errno));
  struct stat status {};
  const char* error = nullptr;
  const auto map = [&]() -> std::shared_ptr<const MappedFile> {
    void* data = nullptr;
    if (status.st_size > 0)  // an empty file has nothing to map
      data = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED,
                    descriptor, 0);
    if (data == MAP_FAILED) {
      error = std::strerror(errno);
      return nullptr;
    }
    const std::shared_ptr<MappedFile> file(new MappedFile(
        std::filesystem::absolute(path),
        {static_cast<const std::byte*>(data), static_cast<std::size_t>(status.st_size)}));
    file->device_ = status.st_dev;
    file->number_ = status.st_ino;
    Watches::get().add(file.get(), file->path_, status);
    return file;
  };
  std::shared_ptr<const MappedFile> file;
  static Mappings mappings;
  if (::fstat(descriptor, &status) != 0)
    error = std::strerror(errno);
  else if (!S_ISREG(status.st_mode))
    error = S_ISDIR(status.st_mode) ? std::strerror(EISDIR) : "not a regular file";
  else
    file = mappings.find(identity_in(status), map);
  ::close(descriptor);
  if (error != nullptr) refuse(error);
  return file;
}

void MappedFile::release(std::span<const std::byte> part) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t begin = (address + page - 1) / page * page;
  const std::uintptr_t end = (address + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

int MappedFile::descriptor() const {
  std::call_once(opened_, [this] {
    const int opened = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status {};
    const bool is_it = opened >= 0 && ::fstat(opened, &status) == 0 && status.st_dev == device_ &&
                       status.st_ino == number_;
    if (is_it) {
      descriptor_ = opened;
    } else if (opened >= 0) {
      ::close(opened);
    }
  });
  return descriptor_;
}

void MappedFile::read(std::size_t begin, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size() && descriptor() >= 0) {
    const ssize_t got = ::pread(descriptor(), out.data() + done, out.size() - done,
                                static_cast<off_t>(begin + done));
    if (got == 0 || (got < 0 && errno != EINTR)) break;
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  if (done < out.size())
    std::memcpy(out.data() + done, bytes_.data() + begin + done, out.size() - done);
}

void check_mapped_files_unchanged() {
  check_mapped_files();
  Watches::get().check();
}

MappedFile::~MappedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  Watches::get().remove(this);  // another mapping may lie there afterwards
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace autopar
