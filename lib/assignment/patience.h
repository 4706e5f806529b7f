#pragma once

#include "assignment/deadline.h"

namespace autopar::assignment {

/// When a gap between cost and bound is small enough to stop.
struct Patience {
  Deadline end = {};          ///< until then, only a closed gap is
  double small_gap = 0;       ///< in parts of the cost
  double cost_elsewhere = 0;  ///< of the other parts of a larger problem
  double gap_elsewhere = 0;   ///< the gap of those that are solved
};

}  // namespace autopar::assignment
