#include "serving/line_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace autopar::serving {

LineReader::LineReader(const std::filesystem::path& file)
    : file_(file), descriptor_(file == "-" ? STDIN_FILENO : open(file.c_str(), O_RDONLY)) {
  if (descriptor_ < 0) fail("--requests {}: {}", file.string(), std::strerror(errno));
}

LineReader::~LineReader() {
  if (descriptor_ != STDIN_FILENO) close(descriptor_);
}

std::optional<std::string> LineReader::next(const std::function<void()>& while_waiting) {
  constexpr int look_around = 200;  // milliseconds
  while (true) {
    const std::size_t end = read_.find('\n', searched_);
    if (end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      searched_ = 0;
      return line;
    }
    searched_ = read_.size();
    pollfd waiting{descriptor_, POLLIN, 0};
    if (poll(&waiting, 1, look_around) == 0) {
      while_waiting();
      continue;
    }
    constexpr std::size_t most = std::size_t{1} << 16;
    read_.resize(searched_ + most);
    const ssize_t count = read(descriptor_, read_.data() + searched_, most);
    read_.resize(searched_ + static_cast<std::size_t>(count < 0 ? 0 : count));
    if (count < 0 && errno != EINTR)
      fail("--requests {}: {}", file_.string(), std::strerror(errno));
    if (count != 0) continue;
    if (read_.empty()) return std::nullopt;
    searched_ = 0;
    return std::exchange(read_, {});
  }
}

}  // namespace autopar::serving
