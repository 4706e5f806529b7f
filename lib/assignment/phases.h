#pragma once

#include <optional>
#include <vector>

#include "assignment/elimination/held_elimination.h"
#include "assignment/local_search/portfolio.h"
#include "assignment/relaxation/relaxation.h"
#include "assignment/repetition/repeated_layers.h"
#include "assignment/subproblem.h"

namespace autopar::assignment {

// The phases that solve.cpp runs on a component of a presolved problem.

/// The cheapest choice below the cutoff. Where none is below it, the bound is at least the cutoff.
/// Fixing and branching call it for what they leave (solve.cpp).
Incumbent solve_subproblem(Subproblem subproblem, SolveContext& context);

/// Solves a component at once where that is known to be quick: by elimination, by GLPK (which may
/// stop at the deadline), or by labels. nullopt where it is too large for all of them.
std::optional<Incumbent> solve_exactly(const Subproblem& component, SolveContext& context);

/// Where layers repeat: improves the folded problem (repetition/folding.h) for a share of the time,
/// and lets the portfolio begin with what that has found. False where nothing is folded.
/// `is_chain`: elimination at prices follows, which needs little more than prices.
bool begin_folded(bool is_chain, Portfolio& portfolio, const SolveContext& context);

/// Improves until the bound hardly rises: the relaxation's prices are near the best ones then.
void find_prices(const Deadline& deadline, Portfolio& portfolio,
                 const SolverParameters::Folded& tuning);

/// Layers that repeat, and the elimination of all but a few nodes.
struct ChainOfLayers {
  RepeatedLayers layers;
  HeldElimination elimination;
};
/// nullopt where too few layers repeat, or tables would be too large, or take too long.
std::optional<ChainOfLayers> find_chain(const AssignmentProblem& problem, const Deadline& deadline,
                                        const SolverParameters& parameters);

/// Whether a single limit's price is found sooner by eliminating at one price after another than by
/// message passing.
bool is_price_soon_found(const ChainOfLayers& chain, const Subproblem& component,
                         const SolverParameters& parameters);

/// Solves the problem at prices in place of its limits until two choices on either side of the
/// limits cost the same and none costs less (Handler and Zang 1980), and mixes their layers. Begins
/// with the relaxation's prices; where it has none for a single limit, without a price, and gives
/// it the last one. Offers bounds and choices to the portfolio.
void eliminate_at_prices(const ChainOfLayers& chain, Portfolio& portfolio, SolveContext& context);

/// Runs the portfolio until it is stuck or finished, or its first share of the time is over. Tries
/// reduced-cost fixing now and then, and returns what it leaves where that is little.
std::optional<Subproblem> improve_until_stuck(Portfolio& portfolio,
                                              const SolverParameters& parameters);

/// Whether too little time is left for steps that do not look at the deadline for long.
bool is_near_end(const Portfolio& portfolio, const SolveContext& context);

/// Logs cost, bound and how many strategies fixing left.
void log_progress(const Portfolio& portfolio, const Subproblem& rest);

/// The subproblem of the choices below a goal: without the strategies whose min-marginals are not
/// below it. `prices` are those that the min-marginals are of.
Subproblem fix_by_reduced_cost(const Subproblem& subproblem, const MinMarginals& min_marginals,
                               const std::vector<double>& prices, Cost goal);
/// The same of a portfolio's component, with its best choice to start from.
Subproblem fix_by_reduced_cost(Portfolio& portfolio, const MinMarginals& min_marginals, Cost goal);

/// Whether what fixing left is small enough to be presolved anew.
bool is_worth_presolving(const Subproblem& rest, const Subproblem& whole,
                         const SolverParameters& parameters);

/// Label search below the portfolio's goal, or so far below it that tables are small, and again
/// below what it finds. Tables may take `seconds` of work. Offers choices and bounds to the
/// portfolio.
void search_below_goals(const MinMarginals& min_marginals, double seconds,
                        const SolveContext& context, Portfolio& portfolio);

/// A goal between bound and cost leaves fewer strategies: a choice below it is found among them
/// sooner, or none is and the goal bounds all choices. Solves what is left below the first goal
/// that leaves few, `goal_part` parts of the gap below the portfolio's, for `seconds` of work.
/// False where no goal leaves few; `goal_part` is then 0 again.
bool try_lower_goal(const MinMarginals& min_marginals, double seconds, double& goal_part,
                    SolveContext& context, Portfolio& portfolio);

/// Relaxes a component, fixes by reduced cost, and solves what is left: as a whole where little is
/// left, else in two branches, with one strategy of a node and without it.
Incumbent branch(const Subproblem& component, SolveContext& context);

}  // namespace autopar::assignment
