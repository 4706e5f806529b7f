#pragma once

#include <algorithm>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// A sum of two costs below `impossible`, or `impossible`.
inline Cost plus(Cost a, Cost b) {
  if (a >= impossible || b >= impossible) return impossible;
  return a + b < impossible ? a + b : impossible;
}

/// A sum of many, between `-impossible` and `impossible`.
inline Cost saturated(WideCost cost) {
  return static_cast<Cost>(std::clamp<WideCost>(cost, -impossible, impossible));
}

}  // namespace autopar::assignment
