#pragma once

#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// Brings the limits over time into their shortest form, in place; which choices are within the
/// limits stays as it is. What a node uses in any case is taken off the limits. Times that no
/// choice can bring over their limit are dropped, and times whose nodes and limit another time
/// covers or whose limit another one's implies; what is left is numbered from 0. A node without
/// influence on any limit gets the interval [0, 0) and no usage. False where some limit is exceeded
/// by every choice. `prices`, by time, on what usage exceeds its limit by, pass to the times that
/// stand for those that are dropped, so that no choice pays less.
bool compress_usage(AssignmentProblem& problem, std::vector<double>* prices = nullptr);

/// True where the node's choice can matter to a limit, in a problem with compressed usage.
inline bool is_limited(const AssignmentProblem::Node& node) { return node.first < node.end; }

}  // namespace autopar::assignment
