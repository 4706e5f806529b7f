#pragma once

namespace autopar {

/// What an ordinary core does in a second, about.
inline constexpr double costs_a_second = 1e9;           ///< looked at, in rows
inline constexpr double presolved_a_second = 5e7;       ///< strategies and pairs of them
inline constexpr double comparisons_a_second = 1.25e8;  ///< of labels
inline constexpr double cells_a_second = 2e7;           ///< of tables for labels

/// The work done so far, in seconds as an ordinary core takes them: the same however fast the
/// machine is and whatever else it does.
class WorkClock {
 public:
  double seconds() const { return seconds_; }
  void add(double seconds) { seconds_ += seconds; }

 private:
  double seconds_ = 0;
};

}  // namespace autopar
