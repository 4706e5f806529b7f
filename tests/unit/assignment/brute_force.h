#pragma once

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// Tries every choice. Throws InternalError above 10^8 choices.
Solution solve_by_brute_force(const AssignmentProblem& problem);

}  // namespace autopar::assignment
