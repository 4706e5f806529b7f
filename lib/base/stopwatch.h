#pragma once

#include <algorithm>
#include <chrono>

#include "base/interruption.h"
#include "base/work_clock.h"

namespace autopar {

/// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// When a search must end, by time or by work, or that it was asked to (graph/interruption.h).
class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(double seconds) : seconds_(seconds) {}
  /// `clock` counts the work, and must outlive it.
  Deadline(double seconds, WorkClock& clock) : seconds_(seconds), clock_(&clock) {}

  double left() const { return seconds_ - stopwatch_.seconds(); }
  /// In the clock's seconds.
  double work_left() const {
    return clock_ == nullptr ? unlimited : end_of_work_ - clock_->seconds();
  }
  bool is_over() const { return left() <= 0 || work_left() <= 0 || was_interrupted(); }

  /// The same, or earlier: after so many of the clock's seconds.
  Deadline within_work(double seconds) const {
    Deadline result = *this;
    if (clock_ != nullptr) {
      result.end_of_work_ = std::min(end_of_work_, clock_->seconds() + seconds);
    }
    return result;
  }
  /// With this part of the time and of the work that are left.
  Deadline share(double part) const {
    Deadline result = within_work(part * work_left());
    result.seconds_ = std::min(seconds_, stopwatch_.seconds() + part * left());
    return result;
  }
  /// Adds to the clock. Never while other threads look at it: what they did is counted by the one
  /// that waits for them.
  void count(double seconds) const {
    if (clock_ != nullptr) clock_->add(seconds);
  }

 private:
  static constexpr double unlimited = 1e18;

  Stopwatch stopwatch_;
  double seconds_ = unlimited;
  WorkClock* clock_ = nullptr;
  double end_of_work_ = unlimited;
};

}  // namespace autopar
