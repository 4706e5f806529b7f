#pragma once

#include <vector>

#include "assignment/relaxation/relaxation.h"
#include "assignment/subproblem.h"

namespace autopar::assignment {

/// The strategies whose min-marginals are below the goal.
double count_below(const MinMarginals& min_marginals, Cost goal);

/// The subproblem of the choices below a goal: without the strategies whose min-marginals are not
/// below it. `relaxation` has the prices that the min-marginals are of; `start` may be empty.
Subproblem fix_by_reduced_cost(const Subproblem& subproblem, const MinMarginals& min_marginals,
                               const Relaxation& relaxation, const std::vector<int>& start,
                               Cost goal);

/// Whether what fixing left is small enough to be presolved anew.
bool is_worth_presolving(const Subproblem& rest, const Subproblem& whole,
                         const SolverParameters& parameters);

}  // namespace autopar::assignment
