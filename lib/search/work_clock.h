#pragma once

namespace autopar::search {

/// The work done so far, in seconds as an ordinary core takes them: the same however fast the
/// machine is and whatever else it does.
class WorkClock {
 public:
  double seconds() const { return seconds_; }
  void add(double seconds) { seconds_ += seconds; }

 private:
  double seconds_ = 0;
};

}  // namespace autopar::search
