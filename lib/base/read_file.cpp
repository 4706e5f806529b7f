#include "base/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/descriptor.h"
#include "base/error.h"

namespace autopar {
namespace {

constexpr const char* no_file = "it is neither a file nor a pipe";

/// Why it cannot be read as a text; null where it can.
const char* refusal(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return std::strerror(EISDIR);
  return S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) ? nullptr : no_file;
}

/// Appends what is there; false at the end, -1 with errno for a failure.
int read_some(const Descriptor& file, std::string& text) {
  std::array<char, std::size_t{1} << 16> buffer{};
  const ssize_t got = ::read(file.number(), buffer.data(), buffer.size());
  if (got >= 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0 ? 1 : 0;
  }
  if (errno == EINTR) return 1;
  if (errno != EAGAIN) return -1;
  pollfd waiting{file.number(), POLLIN, 0};
  return ::poll(&waiting, 1, -1) >= 0 || errno == EINTR ? 1 : -1;
}

}  // namespace

std::string read_file(const std::filesystem::path& file, std::string_view words) {
  const auto refuse = [&](const char* why) { fail(fmt::runtime(words), file.string(), why); };
  const Descriptor opened = open_file(file, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  struct stat status {};
  if (!opened || ::fstat(opened.number(), &status) != 0) refuse(std::strerror(errno));
  if (const char* const why = refusal(status); why != nullptr) refuse(why);
  std::string text;
  int more = 1;
  while (more > 0) more = read_some(opened, text);
  if (more < 0) refuse(std::strerror(errno));
  if (text.empty() && S_ISFIFO(status.st_mode))
    refuse("it is an empty pipe that nobody writes; give a file");
  return text;
}

void check_regular_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!error && !std::filesystem::is_regular_file(status))
    fail("cannot read {}: {}", file.string(),
         std::filesystem::is_directory(status) ? std::strerror(EISDIR) : "not a regular file");
}

}  // namespace autopar
