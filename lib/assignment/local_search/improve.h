#pragma once

#include <optional>

#include "assignment/local_search/portfolio.h"
#include "assignment/subproblem.h"

namespace autopar::assignment {

/// Whether the gap is closed or small enough, or the deadline has come.
bool is_finished(const Subproblem& component, const Portfolio& portfolio);

/// Whether too little time is left for steps that do not look at the deadline for long.
bool is_near_end(const Subproblem& component, const Portfolio& portfolio,
                 const SolveContext& context);

/// Logs cost, bound and how many strategies fixing left.
void log_progress(const Subproblem& component, const Subproblem& rest, const Portfolio& portfolio);

/// Runs the portfolio until it is stuck or finished, or its first share of the time is over. Tries
/// reduced-cost fixing now and then, and returns what it leaves where that is little.
std::optional<Subproblem> improve_until_stuck(const Subproblem& component,
                                              const SolverParameters& parameters,
                                              Portfolio& portfolio);

/// A goal between bound and cost leaves fewer strategies: a choice below it is found among them
/// sooner, or none is and the goal bounds all choices. Solves what is left below the first goal
/// that leaves few, `goal_part` parts of the gap below the portfolio's, for `seconds` of work.
/// False where no goal leaves few; `goal_part` is then 0 again.
bool try_lower_goal(const Subproblem& component, const MinMarginals& min_marginals, double seconds,
                    double& goal_part, SolveContext& context, Portfolio& portfolio);

}  // namespace autopar::assignment
