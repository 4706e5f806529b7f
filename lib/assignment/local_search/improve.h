#pragma once

#include <optional>

#include "assignment/local_search/portfolio.h"
#include "assignment/subproblem.h"

namespace autopar::assignment {

/// The gap is closed or small enough, or the deadline has come.
bool is_finished(const Subproblem& component, const Portfolio& portfolio);

/// No time is left for what takes many sweeps and copies between two looks at the deadline.
bool is_near_end(const Subproblem& component, const Portfolio& portfolio,
                 const SolveContext& context);

/// Logs cost, bound and how many strategies fixing left.
void log_progress(const Subproblem& component, const Subproblem& rest, const Portfolio& portfolio);

/// Runs the portfolio until it is stuck, finished, or its first share of the time is over. Looks
/// now and then at what reduced-cost fixing would leave, and returns that where it is little.
std::optional<Subproblem> improve_until_stuck(const Subproblem& component,
                                              const SolverParameters& parameters,
                                              Portfolio& portfolio);

/// A goal between bound and cost leaves fewer strategies: a choice below it is found among them
/// sooner, or none is and the goal bounds all choices. Solves what is left below the first goal
/// that leaves few, `optimism` parts of the gap below the portfolio's, for so many seconds of work.
/// False where no goal leaves few; `optimism` is then 0 again.
bool try_lower_goal(const Subproblem& component, const MinMarginals& min_marginals, double seconds,
                    double& optimism, SolveContext& context, Portfolio& portfolio);

}  // namespace autopar::assignment
