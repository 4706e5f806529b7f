#pragma once

#include <exception>

#include "base/stopwatch.h"

namespace autopar {

/// That a time limit has passed.
class OutOfTime : public std::exception {
 public:
  const char* what() const noexcept override { return "there is no time left for it"; }
};

/// Seconds of a stopwatch after which work is given up. Keeps a reference to the stopwatch.
class TimeLimit {
 public:
  TimeLimit(const Stopwatch& stopwatch, double seconds)
      : stopwatch_(&stopwatch), seconds_(seconds) {}

  /// Throws OutOfTime where it has passed.
  void check() const {
    if (stopwatch_->seconds() > seconds_) throw OutOfTime();
  }

 private:
  const Stopwatch* stopwatch_;
  double seconds_;
};

}  // namespace autopar
