// A segment tree with lazy addition: what is added to a vertex counts for all below it.

#include "assignment/local_search/usage_tree.h"

#include <algorithm>
#include <limits>

namespace autopar::assignment {

/// Neither do usages make it positive, nor do sums overflow.
constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::min() / 2;

UsageTree::UsageTree(const std::vector<std::int64_t>& limits) {
  while (leaves_ < limits.size()) leaves_ *= 2;
  most_.assign(2 * leaves_, unlimited);
  added_.assign(2 * leaves_, 0);
  for (std::size_t t = 0; t < limits.size(); ++t) most_[leaves_ + t] = -limits[t];
  for (std::size_t k = leaves_; k-- > 1;) most_[k] = std::max(most_[2 * k], most_[2 * k + 1]);
}

void UsageTree::add(int first, int end, std::int64_t usage) {
  if (first >= end) return;
  std::size_t left = leaves_ + static_cast<std::size_t>(first);
  std::size_t right = leaves_ + static_cast<std::size_t>(end) - 1;
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

int UsageTree::time_of_most() const {
  std::size_t k = 1;
  while (k < leaves_) k = 2 * k + (most_[2 * k] >= most_[2 * k + 1] ? 0 : 1);
  return static_cast<int>(k - leaves_);
}

std::int64_t UsageTree::excess_at(int time) const {
  std::size_t k = leaves_ + static_cast<std::size_t>(time);
  std::int64_t over = most_[k];
  for (k /= 2; k >= 1; k /= 2) over += added_[k];
  return over;
}

}  // namespace autopar::assignment
