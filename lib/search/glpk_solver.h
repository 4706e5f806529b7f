#pragma once

#include "search/assignment_problem.h"
#include "search/stopwatch.h"

namespace autopar::search {

/// As without a deadline (assignment_problem.h), until this one instead of the options' time limit.
/// Work is counted on its clock.
Solution solve_with_glpk(const AssignmentProblem& problem, const SolveOptions& options,
                         const Deadline& deadline);

}  // namespace autopar::search
