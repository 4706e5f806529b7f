#pragma once

#include <csignal>
#include <utility>
#include <vector>

namespace autopar::graph {

/// While one exists, Ctrl-C and its like (SIGINT, SIGTERM, SIGHUP) do not end the process but are
/// noted, so that what is half written can be removed.
class InterruptionGuard {
 public:
  InterruptionGuard();
  ~InterruptionGuard();
  InterruptionGuard(const InterruptionGuard&) = delete;
  InterruptionGuard& operator=(const InterruptionGuard&) = delete;

 private:
  std::vector<std::pair<int, struct sigaction>> replaced_;
};

/// Throws Error where a signal was noted.
void check_interruption();

}  // namespace autopar::graph
