#pragma once

#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// Equally good choices differ at random. What `after` chooses otherwise than `before` falls into
/// parts that no edge joins; each that can go back, at no cost and within the limits, does, except
/// for the part with the node `fixed`.
std::vector<int> without_needless_changes(const AssignmentProblem& problem,
                                          const std::vector<int>& before, std::vector<int> after,
                                          int fixed);

}  // namespace autopar::assignment
