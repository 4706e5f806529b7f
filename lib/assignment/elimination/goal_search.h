#pragma once

#include "assignment/local_search/portfolio.h"
#include "assignment/relaxation/relaxation.h"
#include "assignment/subproblem.h"

namespace autopar::assignment {

/// Label search below the portfolio's goal, or so far below it that tables are small, and again
/// below what it finds. Tables may take `seconds` of work. Offers choices and bounds to the
/// portfolio.
void search_below_goals(const Subproblem& component, const MinMarginals& min_marginals,
                        double seconds, const SolveContext& context, Portfolio& portfolio);

}  // namespace autopar::assignment
