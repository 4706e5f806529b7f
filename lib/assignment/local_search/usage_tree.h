#pragma once

#include <cstdint>
#include <vector>

namespace autopar::assignment {

/// By time, how far usage is over its limit (negative: below it). The maximum takes constant time,
/// a change of an interval logarithmic.
class UsageTree {
 public:
  /// With no usage.
  explicit UsageTree(const std::vector<std::int64_t>& limits);
  /// Adds to times [first, end).
  void add(int first, int end, std::int64_t usage);
  /// The largest usage over the limit; where there are no limits, far below 0.
  std::int64_t most() const { return most_[1]; }
  /// The first time with the largest excess.
  int time_of_most() const;
  std::int64_t excess_at(int time) const;

 private:
  std::size_t leaves_ = 1;  ///< a power of two
  std::vector<std::int64_t>
      most_;  ///< by place in the tree: of its times, with `added_` of its own
  std::vector<std::int64_t> added_;
};

}  // namespace autopar::assignment
