/// The C library's calls on files and folders.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <optional>
#include <vector>

#include "fault_plan.h"
#include "trace.h"

using autopar::faults::absolute_path;
using autopar::faults::end_if_torn;
using autopar::faults::Fault;
using autopar::faults::is_socket;
using autopar::faults::is_watched;
using autopar::faults::is_watched_allocation;
using autopar::faults::Kind;
using autopar::faults::next_fault;
using autopar::faults::next_function;
using autopar::faults::number_of;
using autopar::faults::path_of;
using autopar::faults::Tracing;

namespace {

/// A call that is done or fails as a whole. `trace` is called after it was done.
template <typename Result, typename Call, typename Trace>
Result whole_call(bool watched, Kind kind, Result failed, const Call& call, const Trace& trace) {
  if (!watched) return call();
  const Fault fault = next_fault(kind);
  if (fault.error != 0) {
    errno = fault.error;
    return failed;
  }
  const Tracing tracing;
  const Result result = call();
  if (result != failed && tracing.is_on()) trace();
  end_if_torn(fault);
  return result;
}

template <typename Call>
int whole_call(bool watched, Kind kind, const Call& call) {
  return whole_call(watched, kind, -1, call, [] {});
}

/// Opens with the call, which gives a descriptor, or -1.
template <typename Call>
int open_call(int folder, const char* path, int flags, const Call& call) {
  if (!is_watched(folder, path)) return call();
  const Fault fault = next_fault(Kind::open);
  if (fault.error != 0) {
    errno = fault.error;
    return -1;
  }
  const Tracing tracing;
  const std::string place = absolute_path(folder, path);
  const bool was_there = tracing.is_on() && autopar::faults::exists(place);
  const int descriptor = call();
  if (descriptor >= 0 && tracing.is_on()) {
    if (!was_there) autopar::faults::trace_create(place, number_of(descriptor));
    if (was_there && (flags & O_TRUNC) != 0)
      autopar::faults::trace_length(number_of(descriptor), 0);
  }
  end_if_torn(fault);
  return descriptor;
}

/// Moves up to `bytes` bytes by `call(bytes)`, which gives how many it moved, or -1.
template <typename Call>
ssize_t part_call(Kind kind, std::size_t bytes, const Call& call) {
  const Fault fault = next_fault(kind);
  if (fault.error != 0) {
    errno = fault.error;
    return -1;
  }
  const ssize_t moved = call(fault.part_of(bytes));
  end_if_torn(fault);
  return moved;
}

/// Writes at an offset, or where the file stands; what is written to a socket is sent.
template <typename Call>
ssize_t write_call(int file, const void* data, std::size_t bytes, std::optional<off_t> offset,
                   const Call& call) {
  if (is_socket(file)) return part_call(Kind::send, bytes, call);
  if (!is_watched(file)) return call(bytes);
  const Tracing tracing;
  const auto traced = [&](std::size_t part) {
    const off_t begin = offset ? *offset : lseek(file, 0, SEEK_CUR);
    const ssize_t written = call(part);
    if (written > 0 && tracing.is_on())
      autopar::faults::trace_write(
          number_of(file), static_cast<std::uint64_t>(begin),
          {static_cast<const char*>(data), static_cast<std::size_t>(written)});
    return written;
  };
  return part_call(Kind::write, bytes, traced);
}

template <typename Call>
ssize_t read_call(int file, std::size_t bytes, const Call& call) {
  if (is_socket(file)) return part_call(Kind::receive, bytes, call);
  return is_watched(file) ? part_call(Kind::read, bytes, call) : call(bytes);
}

template <typename Call>
int length_call(int file, off_t bytes, const Call& call) {
  return whole_call(is_watched(file), Kind::write, -1, call, [&] {
    autopar::faults::trace_length(number_of(file), static_cast<std::uint64_t>(bytes));
  });
}

template <typename Call>
int sync_call(int file, const Call& call) {
  return whole_call(is_watched(file), Kind::sync, -1, call,
                    [&] { autopar::faults::trace_sync(number_of(file)); });
}

template <typename Call>
int rename_call(const char* how, Kind kind, int from_folder, const char* from, int to_folder,
                const char* to, const Call& call) {
  const bool watched = is_watched(from_folder, from) || is_watched(to_folder, to);
  return whole_call(watched, kind, -1, call, [&] {
    autopar::faults::trace_rename(how, absolute_path(from_folder, from),
                                  absolute_path(to_folder, to));
  });
}

template <typename Call>
int unlink_call(int folder, const char* path, const Call& call) {
  return whole_call(is_watched(folder, path), Kind::unlink, -1, call,
                    [&] { autopar::faults::trace_remove(absolute_path(folder, path)); });
}

template <typename Call>
int mkdir_call(int folder, const char* path, const Call& call) {
  return whole_call(is_watched(folder, path), Kind::mkdir, -1, call, [&] {
    const std::string place = absolute_path(folder, path);
    autopar::faults::trace_folder(place, number_of(place));
  });
}

mode_t mode_of(int flags, va_list arguments) {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

int flags_of(const char* mode) {
  if (mode[0] == 'w') return O_CREAT | O_TRUNC;
  return mode[0] == 'a' ? O_CREAT : 0;
}

/// A buffered file; its writes are counted only where they go through `write`.
template <typename Call>
FILE* stream_call(const char* path, const char* mode, const Call& call) {
  FILE* stream = nullptr;
  open_call(AT_FDCWD, path, flags_of(mode), [&] {
    stream = call();
    return stream == nullptr ? -1 : fileno(stream);
  });
  return stream;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static const auto real = next_function<int(const char*, int, mode_t)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_call(AT_FDCWD, path, flags, [&] { return real(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  static const auto real = next_function<int(int, const char*, int, mode_t)>("openat");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_call(folder, path, flags, [&] { return real(folder, path, flags, mode); });
}

int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return openat(folder, path, flags, mode);
}

int creat(const char* path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

FILE* fopen(const char* path, const char* mode) {
  static const auto real = next_function<FILE*(const char*, const char*)>("fopen");
  return stream_call(path, mode, [&] { return real(path, mode); });
}

FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

ssize_t read(int file, void* data, size_t bytes) {
  static const auto real = next_function<ssize_t(int, void*, size_t)>("read");
  return read_call(file, bytes, [&](std::size_t part) { return real(file, data, part); });
}

ssize_t pread(int file, void* data, size_t bytes, off_t offset) {
  static const auto real = next_function<ssize_t(int, void*, size_t, off_t)>("pread");
  return read_call(file, bytes, [&](std::size_t part) { return real(file, data, part, offset); });
}

ssize_t pread64(int file, void* data, size_t bytes, off64_t offset) {
  return pread(file, data, bytes, offset);
}

ssize_t write(int file, const void* data, size_t bytes) {
  static const auto real = next_function<ssize_t(int, const void*, size_t)>("write");
  return write_call(file, data, bytes, std::nullopt,
                    [&](std::size_t part) { return real(file, data, part); });
}

ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  static const auto real = next_function<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return write_call(file, data, bytes, offset,
                    [&](std::size_t part) { return real(file, data, part, offset); });
}

ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t offset) {
  return pwrite(file, data, bytes, offset);
}

/// As one write of all parts.
ssize_t writev(int file, const struct iovec* parts, int count) {
  std::vector<char> all;
  for (int i = 0; i < count; ++i) {
    const auto* begin = static_cast<const char*>(parts[i].iov_base);
    all.insert(all.end(), begin, begin + parts[i].iov_len);
  }
  return write(file, all.data(), all.size());
}

int ftruncate(int file, off_t bytes) noexcept {
  static const auto real = next_function<int(int, off_t)>("ftruncate");
  return length_call(file, bytes, [&] { return real(file, bytes); });
}

int ftruncate64(int file, off64_t bytes) noexcept { return ftruncate(file, bytes); }

int fsync(int file) {
  static const auto real = next_function<int(int)>("fsync");
  return sync_call(file, [&] { return real(file); });
}

int fdatasync(int file) {
  static const auto real = next_function<int(int)>("fdatasync");
  return sync_call(file, [&] { return real(file); });
}

int close(int file) {
  static const auto real = next_function<int(int)>("close");
  const bool watched = is_watched(file);
  const Fault fault = watched ? next_fault(Kind::close) : Fault{};
  const int closed = real(file);  // as on Linux, it is closed whatever close tells
  end_if_torn(fault);
  if (fault.error == 0) return closed;
  errno = fault.error;
  return -1;
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next_function<int(const char*, const char*)>("rename");
  return rename_call("rename", Kind::rename, AT_FDCWD, from, AT_FDCWD, to,
                     [&] { return real(from, to); });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  static const auto real = next_function<int(int, const char*, int, const char*)>("renameat");
  return rename_call("rename", Kind::rename, from_folder, from, to_folder, to,
                     [&] { return real(from_folder, from, to_folder, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  static const auto real =
      next_function<int(int, const char*, int, const char*, unsigned)>("renameat2");
  const bool exchanges = (flags & RENAME_EXCHANGE) != 0;
  const Kind kind = exchanges                         ? Kind::exchange
                    : (flags & RENAME_NOREPLACE) != 0 ? Kind::noreplace
                                                      : Kind::rename;
  return rename_call(exchanges ? "exchange" : "rename", kind, from_folder, from, to_folder, to,
                     [&] { return real(from_folder, from, to_folder, to, flags); });
}

int link(const char* from, const char* to) noexcept {
  static const auto real = next_function<int(const char*, const char*)>("link");
  return rename_call("link", Kind::rename, AT_FDCWD, from, AT_FDCWD, to,
                     [&] { return real(from, to); });
}

int unlink(const char* path) noexcept {
  static const auto real = next_function<int(const char*)>("unlink");
  return unlink_call(AT_FDCWD, path, [&] { return real(path); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static const auto real = next_function<int(int, const char*, int)>("unlinkat");
  return unlink_call(folder, path, [&] { return real(folder, path, flags); });
}

int rmdir(const char* path) noexcept {
  static const auto real = next_function<int(const char*)>("rmdir");
  return unlink_call(AT_FDCWD, path, [&] { return real(path); });
}

int remove(const char* path) noexcept {
  static const auto real = next_function<int(const char*)>("remove");
  return unlink_call(AT_FDCWD, path, [&] { return real(path); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next_function<int(const char*, mode_t)>("mkdir");
  return mkdir_call(AT_FDCWD, path, [&] { return real(path, mode); });
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  static const auto real = next_function<int(int, const char*, mode_t)>("mkdirat");
  return mkdir_call(folder, path, [&] { return real(folder, path, mode); });
}

int chmod(const char* path, mode_t mode) noexcept {
  static const auto real = next_function<int(const char*, mode_t)>("chmod");
  return whole_call(is_watched(AT_FDCWD, path), Kind::chmod, [&] { return real(path, mode); });
}

int fchmod(int file, mode_t mode) noexcept {
  static const auto real = next_function<int(int, mode_t)>("fchmod");
  return whole_call(is_watched(file), Kind::chmod, [&] { return real(file, mode); });
}

int flock(int file, int operation) noexcept {
  static const auto real = next_function<int(int, int)>("flock");
  return whole_call(is_watched(file), Kind::lock, [&] { return real(file, operation); });
}

void* mmap(void* address, size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  static const auto real = next_function<void*(void*, size_t, int, int, int, off_t)>("mmap");
  const auto call = [&] { return real(address, bytes, protection, flags, file, offset); };
  if (file < 0)
    return whole_call(is_watched_allocation(bytes), Kind::pages, MAP_FAILED, call, [] {});
  return whole_call(is_watched(file), Kind::map, MAP_FAILED, call, [] {});
}

void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
             off64_t offset) noexcept {
  return mmap(address, bytes, protection, flags, file, offset);
}

}  // extern "C"
