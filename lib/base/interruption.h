#pragma once

#include <csignal>
#include <initializer_list>
#include <utility>
#include <vector>

namespace autopar {

/// While one exists, Ctrl-C and its like do not end the process but are noted, so that what is half
/// written can be removed, or what is half searched be used.
class InterruptionGuard {
 public:
  explicit InterruptionGuard(std::initializer_list<int> signals = {SIGINT, SIGTERM, SIGHUP});
  ~InterruptionGuard();
  InterruptionGuard(const InterruptionGuard&) = delete;
  InterruptionGuard& operator=(const InterruptionGuard&) = delete;

 private:
  std::vector<std::pair<int, struct sigaction>> replaced_;
};

/// While it lives, the signals that were noted before count for nothing: for work that is needed
/// all the same. The next one counts.
class InterruptionReprieve {
 public:
  InterruptionReprieve();
  ~InterruptionReprieve();
  InterruptionReprieve(const InterruptionReprieve&) = delete;
  InterruptionReprieve& operator=(const InterruptionReprieve&) = delete;

 private:
  int pardoned_before_;
};

/// True where a signal was noted since the last guard was made that no other guard enclosed.
bool was_interrupted();
/// Throws Error where one was.
void check_interruption();

}  // namespace autopar
