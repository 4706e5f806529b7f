#pragma once

#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// The nodes of each part of a problem that neither an edge nor a limit joins to the rest. Usage
/// must be compressed (usage_rows.h).
std::vector<std::vector<int>> components(const AssignmentProblem& problem);

/// The same, each component's nodes in `sweep_order` (relaxation/message_passing.h).
std::vector<std::vector<int>> components_in_sweep_order(const AssignmentProblem& problem);

/// The problem's parts, each of the nodes in a list in their order, and the edges between them,
/// with all limits. No node may be in two lists, and no edge join two parts.
std::vector<AssignmentProblem> subproblems(AssignmentProblem problem,
                                           const std::vector<std::vector<int>>& parts);

}  // namespace autopar::assignment
