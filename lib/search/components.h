#pragma once

#include <vector>

#include "search/assignment_problem.h"

namespace autopar::search {

/// The nodes of each part of a problem that neither an edge nor a limit joins to the rest. Usage
/// must be compressed (usage_rows.h).
std::vector<std::vector<int>> components(const AssignmentProblem& problem);

/// The problem of some nodes (in ascending order) and the edges between them, with all limits.
AssignmentProblem subproblem(const AssignmentProblem& problem, const std::vector<int>& nodes);

}  // namespace autopar::search
