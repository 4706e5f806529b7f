#pragma once

#include "search/assignment_problem.h"

namespace autopar::search {

/// A sum of two costs below `impossible`, or `impossible`.
inline Cost plus(Cost a, Cost b) {
  if (a >= impossible || b >= impossible) return impossible;
  return a + b < impossible ? a + b : impossible;
}

}  // namespace autopar::search
