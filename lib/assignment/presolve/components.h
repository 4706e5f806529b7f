#pragma once

#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// The nodes of each connected component; nodes are joined by edges, and by a time with a limit at
/// which both are alive. Usage must be compressed (usage_rows.h).
std::vector<std::vector<int>> components(const AssignmentProblem& problem);

/// The same, each component's nodes in `sweep_order` (relaxation/message_passing.h).
std::vector<std::vector<int>> components_in_sweep_order(const AssignmentProblem& problem);

/// The subproblems of the nodes of each part, in their order, with the edges between them and all
/// limits. No node may be in two parts, and no edge join two.
std::vector<AssignmentProblem> subproblems(AssignmentProblem problem,
                                           const std::vector<std::vector<int>>& parts);

}  // namespace autopar::assignment
