#include "runtime/comm/watchdog.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace autopar::runtime {

void end_process(const std::string& why) noexcept {
  const std::string line = "error: " + why + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  std::_Exit(1);
}

Watchdog::Watchdog(std::chrono::milliseconds patience, std::string why)
    : thread_([this, patience, why = std::move(why)] {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, patience, [this] { return is_over_; })) end_process(why);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace autopar::runtime
