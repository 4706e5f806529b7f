#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace autopar::runtime {

/// Ends the process at once, as a failed command, with one line on standard error: for where
/// nothing can be thrown, since a call of another library does not return.
[[noreturn]] void end_process(const std::string& why) noexcept;

/// While it lives, a thread watches over the one that made it and calls end_process() after a
/// while. Time in which the process was stopped does not count.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds patience, std::string why);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  bool is_over_within(std::chrono::milliseconds patience);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace autopar::runtime
