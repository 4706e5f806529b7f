#pragma once

#include <algorithm>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// The sum of two costs, at most `impossible`.
inline Cost plus(Cost a, Cost b) {
  if (a >= impossible || b >= impossible) return impossible;
  return a + b < impossible ? a + b : impossible;
}

/// A sum of many costs, clamped to [-impossible, impossible].
inline Cost saturated(WideCost cost) {
  return static_cast<Cost>(std::clamp<WideCost>(cost, -impossible, impossible));
}

}  // namespace autopar::assignment
