#pragma once

#include <cstdint>
#include <vector>

#include "assignment/elimination/bucket_tree.h"

namespace autopar::assignment {

/// What must be known of the usage of a choice behind a bucket. Not its usage at each time: times
/// that share what is used there are one sum; and of times that share all that is not behind the
/// bucket, only the one nearest to its limit matters.
struct UsageSlots {
  struct Term {
    int sum;
    std::int64_t more;
  };

  /// While the node's usage and the children's slots are summed: by sum, the least limit of its
  /// times, whether the node is alive then, and by child its slot, -1 for none.
  std::vector<std::int64_t> limits;
  std::vector<char> has_node;
  std::vector<std::vector<int>> child_slots;
  /// By slot that is left: it is the largest of its sums, each with some more.
  std::vector<std::vector<Term>> slots;
};

/// By bucket. The problem must have its usage compressed (usage_rows.h).
std::vector<UsageSlots> usage_slots(const AssignmentProblem& problem, const BucketTree& tree);

}  // namespace autopar::assignment
