#include "trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>

namespace autopar::faults {
namespace {

std::recursive_mutex& traced_calls() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// -1 where no trace is asked for.
long trace_file() {
  static const long file = [] {
    const char* path = std::getenv("AUTOPAR_FAULT_TRACE");
    return path == nullptr ? -1L
                           : syscall(SYS_openat, AT_FDCWD, path,
                                     O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }();
  return file;
}

void tell(std::string line) {
  line += "}\n";
  (void)!syscall(SYS_write, trace_file(), line.data(), line.size());
}

/// Paths of tests need no escapes beside these.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

}  // namespace

Tracing::Tracing() : is_on_(trace_file() >= 0) {
  if (is_on_) traced_calls().lock();
}

Tracing::~Tracing() {
  if (is_on_) traced_calls().unlock();
}

bool exists(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

std::uint64_t number_of(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

std::uint64_t number_of(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

void trace_create(const std::string& path, std::uint64_t file) {
  tell("{\"op\": \"create\", \"path\": " + quoted(path) + ", \"file\": " + std::to_string(file));
}

void trace_folder(const std::string& path, std::uint64_t folder) {
  tell("{\"op\": \"folder\", \"path\": " + quoted(path) + ", \"file\": " + std::to_string(folder));
}

void trace_length(std::uint64_t file, std::uint64_t bytes) {
  tell("{\"op\": \"length\", \"file\": " + std::to_string(file) +
       ", \"bytes\": " + std::to_string(bytes));
}

void trace_write(std::uint64_t file, std::uint64_t offset, std::string_view data) {
  tell("{\"op\": \"write\", \"file\": " + std::to_string(file) +
       ", \"offset\": " + std::to_string(offset) + ", \"data\": \"" + hexadecimal(data) + '"');
}

void trace_sync(std::uint64_t file) {
  tell("{\"op\": \"sync\", \"file\": " + std::to_string(file));
}

void trace_rename(std::string_view how, const std::string& from, const std::string& to) {
  tell("{\"op\": " + quoted(how) + ", \"from\": " + quoted(from) + ", \"to\": " + quoted(to));
}

void trace_remove(const std::string& path) {
  tell("{\"op\": \"remove\", \"path\": " + quoted(path));
}

}  // namespace autopar::faults
