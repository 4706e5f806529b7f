#pragma once

#include <algorithm>

#include "base/interruption.h"
#include "base/stopwatch.h"

namespace autopar::assignment {

/// Seconds, of time or of work, that no search takes.
inline constexpr double unlimited_seconds = 1e18;

/// Deterministic work done so far, in seconds as an ordinary core takes them: the same however fast
/// the machine is and whatever else it does.
struct WorkClock {
  double seconds = 0;
};

/// When a search must end: by time, by work, or because of an interrupt (base/interruption.h).
class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(double seconds) : seconds_(seconds) {}
  /// `clock` counts the work, and must outlive it.
  Deadline(double seconds, WorkClock& clock) : seconds_(seconds), clock_(&clock) {}

  /// Seconds of time.
  double left() const { return seconds_ - stopwatch_.seconds(); }
  /// Seconds of work.
  double work_left() const {
    return clock_ == nullptr ? unlimited_seconds : end_of_work_ - clock_->seconds;
  }
  bool is_over() const { return left() <= 0 || work_left() <= 0 || was_interrupted(); }

  /// The same, or earlier: after so many seconds of work.
  Deadline within_work(double seconds) const {
    Deadline result = *this;
    if (clock_ != nullptr) {
      result.end_of_work_ = std::min(end_of_work_, clock_->seconds + seconds);
    }
    return result;
  }
  /// With this part of the time and of the work that are left.
  Deadline share(double part) const {
    Deadline result = within_work(part * work_left());
    result.seconds_ = std::min(seconds_, stopwatch_.seconds() + part * left());
    return result;
  }
  /// Adds to the clock. Only one thread may: it counts the work of those that it waits for.
  void count(double seconds) const {
    if (clock_ != nullptr) clock_->seconds += seconds;
  }

 private:
  Stopwatch stopwatch_;
  double seconds_ = unlimited_seconds;
  WorkClock* clock_ = nullptr;
  double end_of_work_ = unlimited_seconds;
};

}  // namespace autopar::assignment
