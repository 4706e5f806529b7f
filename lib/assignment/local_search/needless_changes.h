#pragma once

#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// `after` without changes that make it no cheaper than `before`: the changed nodes fall into
/// connected parts, and each part but that of the node `fixed` is restored where that costs nothing
/// and keeps the limits.
Choice without_needless_changes(const AssignmentProblem& problem, const Choice& before,
                                Choice after, int fixed);

}  // namespace autopar::assignment
