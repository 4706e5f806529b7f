#include "runtime/comm/watchdog.h"

#include <unistd.h>

#include <algorithm>
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
        if (!is_over_within(patience)) end_process(why);
      }) {}

bool Watchdog::is_over_within(std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  // A process that was stopped itself begins anew: it does not know whether others were, too.
  const auto slice = std::max(patience / 8, std::chrono::milliseconds(1));
  const auto late_at_most = std::max(patience / 4, std::chrono::milliseconds(250));
  auto last_look = Clock::now();
  auto deadline = last_look + patience;
  std::unique_lock lock(mutex_);
  while (true) {
    const auto next = std::min(last_look + slice, deadline);
    if (changed_.wait_until(lock, next, [this] { return is_over_; })) return true;
    const auto now = Clock::now();
    if (now - next >= late_at_most)
      deadline = now + patience;
    else if (now >= deadline)
      return false;
    last_look = now;
  }
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace autopar::runtime
