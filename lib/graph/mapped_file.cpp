#include "graph/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "graph/error.h"

namespace autopar::graph {
namespace {

/// Of the pages that lie within the part. Advice that the system does not take changes nothing.
void advise(std::span<const std::byte> part, int advice) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t begin = (address + page - 1) / page * page;
  const std::uintptr_t end = (address + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const auto refuse = [&path](const char* why) { fail("cannot read {}: {}", path.string(), why); };
  // Without O_NONBLOCK a pipe would be waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) refuse(std::strerror(errno));
  struct stat status {};
  void* data = nullptr;
  const char* error = nullptr;
  if (::fstat(descriptor, &status) != 0) {
    error = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    error = S_ISDIR(status.st_mode) ? std::strerror(EISDIR) : "not a regular file";
  } else if (status.st_size > 0) {  // an empty file has nothing to map
    data = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED,
                  descriptor, 0);
    if (data == MAP_FAILED) error = std::strerror(errno);
  }
  ::close(descriptor);
  if (error != nullptr) refuse(error);
  return std::shared_ptr<const MappedFile>(new MappedFile(
      {static_cast<const std::byte*>(data), static_cast<std::size_t>(status.st_size)}));
}

void MappedFile::release(std::span<const std::byte> part) { advise(part, MADV_DONTNEED); }

void MappedFile::expect_few_reads(std::span<const std::byte> part) {
  advise(part, MADV_RANDOM);
  advise(part, MADV_NOHUGEPAGE);  // one row would map two megabytes
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace autopar::graph
