#include "assignment/local_search/improve.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "assignment/relaxation/reduced_cost_fixing.h"

namespace autopar::assignment {

bool is_finished(const Subproblem& component, const Portfolio& portfolio) {
  return portfolio.is_done(component.patience) || component.deadline.is_over();
}

bool is_near_end(const Subproblem& component, const Portfolio& portfolio,
                 const SolveContext& context) {
  const double longest = std::max(portfolio.seconds_of_round(), context.longest_presolve);
  return component.deadline.left() < context.parameters().improve.least_rounds_left * longest;
}

void log_progress(const Subproblem& component, const Subproblem& rest, const Portfolio& portfolio) {
  const AssignmentProblem& problem = component.problem;
  spdlog::info(
      "{} nodes, {} edges, {} limits: bound {}, cost {}, {} of {} strategies left, {:.1f} s left",
      problem.nodes.size(), problem.edges.size(), problem.usage_limits.size(), portfolio.bound(),
      portfolio.cost(), count_strategies(rest.problem), count_strategies(problem),
      component.deadline.left());
}

std::optional<Subproblem> improve_until_stuck(const Subproblem& component,
                                              const SolverParameters& parameters,
                                              Portfolio& portfolio) {
  const Deadline first = component.deadline.share(parameters.improve.share_of_first_run);
  const double few = parameters.fixing.few_strategies * count_strategies(component.problem);
  int rounds = parameters.improve.first_rounds;
  while (!portfolio.run(first, component.patience, true, rounds)) {
    // A gap need not be closed to rule most strategies out.
    const MinMarginals min_marginals = portfolio.relaxation().min_marginals();
    Subproblem rest = fix_by_reduced_cost(component, min_marginals, portfolio.relaxation(),
                                          portfolio.choice(), portfolio.goal());
    if (count_strategies(rest.problem) <= few) return rest;
    rounds *= 2;
  }
  return std::nullopt;
}

bool try_lower_goal(const Subproblem& component, const MinMarginals& min_marginals, double seconds,
                    double& goal_part, SolveContext& context, Portfolio& portfolio) {
  const double step = context.parameters().improve.step_of_goals;
  const double few =
      context.parameters().fixing.few_strategies * count_strategies(component.problem);
  const double gap = static_cast<double>(portfolio.goal() - portfolio.bound());
  for (goal_part += step; goal_part < 1; goal_part += step) {
    const Cost goal = portfolio.goal() - static_cast<Cost>(goal_part * gap);
    if (count_below(min_marginals, goal) > few) continue;
    Subproblem lower = fix_by_reduced_cost(component, min_marginals, portfolio.relaxation(),
                                           portfolio.choice(), goal);
    if (context.options.log) log_progress(component, lower, portfolio);
    lower.deadline = component.deadline.within_work(seconds);
    portfolio.offer(solve_subproblem(std::move(lower), context), goal);
    return true;
  }
  goal_part = 0;
  return false;
}

}  // namespace autopar::assignment
