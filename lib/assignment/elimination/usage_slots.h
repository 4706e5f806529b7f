#pragma once

#include <cstdint>
#include <vector>

#include "assignment/elimination/bucket_tree.h"

namespace autopar::assignment {

/// The state of usage that labels of a bucket's subtree carry. Times with the same nodes of the
/// subtree share one sum; and of times with the same nodes outside of it, only the one nearest to
/// its limit matters, so that they share one slot.
struct UsageSlots {
  struct Term {
    int sum;
    std::int64_t more;
  };

  /// By sum of the node's usage and the children's slots: the least limit of its times, whether the
  /// node is alive then, and by child its slot, -1 for none.
  std::vector<std::int64_t> limits;
  std::vector<char> has_node;
  std::vector<std::vector<int>> child_slots;
  /// By slot of the bucket: the maximum of these sums, each with a constant.
  std::vector<std::vector<Term>> slots;
};

/// By bucket. Usage must be compressed (usage_rows.h).
std::vector<UsageSlots> usage_slots(const AssignmentProblem& problem, const BucketTree& tree);

}  // namespace autopar::assignment
