#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace autopar {

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (isatty(STDERR_FILENO)) thread_ = std::thread([this] { show(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  finished_.notify_one();
  thread_.join();
}

void Progress::show() {
  constexpr int bar_width = 20;
  std::unique_lock lock(mutex_);
  for (int second = 1;; ++second) {
    if (finished_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; })) break;
    std::string bar(bar_width, '-');
    for (int i = 0; i < 5; ++i) bar[static_cast<std::size_t>((second + i) % bar_width)] = '#';
    fmt::print(stderr, "\r[{}] {} ({} s) ", bar, what_, second);
    std::fflush(stderr);
  }
  fmt::print(stderr, "\r\033[K");
}

std::shared_ptr<void> show_progress(const std::string& what) {
  return std::make_shared<Progress>(what);
}

}  // namespace autopar
