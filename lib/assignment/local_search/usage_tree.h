#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace autopar::assignment {

/// By time, how far usage is over its limit (negative: below it). The maximum takes constant time,
/// a change of an interval logarithmic. A segment tree with lazy addition: what is added to a
/// vertex counts for all below it.
class UsageTree {
 public:
  /// With no usage.
  explicit UsageTree(const std::vector<std::int64_t>& limits) {
    while (leaves_ < limits.size()) leaves_ *= 2;
    most_.assign(2 * leaves_, unlimited);
    added_.assign(2 * leaves_, 0);
    for (std::size_t t = 0; t < limits.size(); ++t) most_[leaves_ + t] = -limits[t];
    for (std::size_t k = leaves_; k-- > 1;) most_[k] = std::max(most_[2 * k], most_[2 * k + 1]);
  }

  /// Adds to times [first, end).
  void add(int first, int end, std::int64_t usage) {
    if (first >= end) return;
    std::size_t left = leaves_ + first;
    std::size_t right = leaves_ + end - 1;
    const std::size_t leftmost = left;
    const std::size_t rightmost = right;
    const auto give = [&](std::size_t k) {
      most_[k] += usage;
      added_[k] += usage;
    };
    for (; left <= right; left /= 2, right /= 2) {
      if (left % 2 == 1) give(left++);
      if (right % 2 == 0) give(right--);
      if (right == 0) break;
    }
    const auto renew = [&](std::size_t k) {
      for (k /= 2; k >= 1; k /= 2) most_[k] = std::max(most_[2 * k], most_[2 * k + 1]) + added_[k];
    };
    renew(leftmost);
    renew(rightmost);
  }

  /// The largest usage over the limit; where there are no limits, far below 0.
  std::int64_t most() const { return most_[1]; }
  /// The largest excess at times [first, end), which are not empty.
  std::int64_t most_in(int first, int end) const {
    std::size_t left = leaves_ + first;
    std::size_t right = leaves_ + end - 1;
    std::int64_t of_left = most_[left];
    std::int64_t of_right = most_[right];
    for (; left / 2 != right / 2; left /= 2, right /= 2) {
      if (left % 2 == 0) of_left = std::max(of_left, most_[left + 1]);
      if (right % 2 == 1) of_right = std::max(of_right, most_[right - 1]);
      of_left += added_[left / 2];
      of_right += added_[right / 2];
    }
    std::int64_t over = std::max(of_left, of_right);
    for (left /= 2; left >= 1; left /= 2) over += added_[left];
    return over;
  }
  /// The first time with the largest excess.
  int time_of_most() const {
    std::size_t k = 1;
    while (k < leaves_) k = 2 * k + (most_[2 * k] >= most_[2 * k + 1] ? 0 : 1);
    return static_cast<int>(k - leaves_);
  }
  std::int64_t excess_at(int time) const {
    std::size_t k = leaves_ + time;
    std::int64_t over = most_[k];
    for (k /= 2; k >= 1; k /= 2) over += added_[k];
    return over;
  }

 private:
  /// Neither do usages make it positive, nor do sums overflow.
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::min() / 2;

  std::size_t leaves_ = 1;           ///< a power of two
  std::vector<std::int64_t> most_;   ///< by place in the tree: of its times, with its own `added_`
  std::vector<std::int64_t> added_;  ///< by place in the tree
};

}  // namespace autopar::assignment
