#pragma once

#include "assignment/assignment_problem.h"
#include "assignment/deadline.h"

namespace autopar::assignment {

/// As without a deadline (assignment_problem.h), until this one instead of the options' time limit.
/// Work is counted on its clock.
Solution solve_with_glpk(const AssignmentProblem& problem, const SolveOptions& options,
                         const Deadline& deadline);

}  // namespace autopar::assignment
