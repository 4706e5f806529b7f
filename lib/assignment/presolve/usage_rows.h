#pragma once

#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// Compresses the limits over time in place, as presolve of linear programs drops redundant and
/// dominated rows; the same choices stay within the limits. The least usage of each node is
/// subtracted from the limits. Times that no choice can bring over their limit are dropped, and so
/// are times that another one dominates; those left are numbered from 0. A node that matters to no
/// limit gets the interval [0, 0) and no usage. False where every choice exceeds some limit. The
/// `prices` of dominated times, of a unit of usage over the limit, are added to those of the times
/// that dominate them, so that no choice pays less.
bool compress_usage(AssignmentProblem& problem, std::vector<double>* prices = nullptr);

/// Whether the node's choice can matter to a limit, in a problem with compressed usage.
inline bool is_limited(const AssignmentProblem::Node& node) { return node.first < node.end; }

}  // namespace autopar::assignment
