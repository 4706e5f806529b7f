#pragma once

#include <algorithm>
#include <chrono>

#include "graph/interruption.h"

namespace autopar::search {

/// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// When a search must end, or that it was asked to (graph/interruption.h).
class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(double seconds) : seconds_(seconds) {}
  double left() const { return seconds_ - stopwatch_.seconds(); }
  bool is_over() const { return left() <= 0 || graph::was_interrupted(); }
  /// The same, or earlier.
  Deadline within(double seconds) const { return Deadline(std::min(seconds, left())); }

 private:
  Stopwatch stopwatch_;
  double seconds_ = 1e18;
};

}  // namespace autopar::search
