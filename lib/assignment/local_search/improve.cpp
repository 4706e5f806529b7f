#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "assignment/phases.h"
#include "assignment/repetition/folding.h"

namespace autopar::assignment {

namespace {

/// The strategies whose min-marginals are below the goal.
double count_below(const MinMarginals& min_marginals, Cost goal) {
  double count = 0;
  for (const auto& bounds : min_marginals) {
    count += static_cast<double>(
        std::ranges::count_if(bounds, [&](Cost bound) { return bound < goal; }));
  }
  return count;
}

/// So few strategies of the portfolio's component are worth a presolve at any time.
double few_strategies(const Portfolio& portfolio, const SolverParameters& parameters) {
  return parameters.fixing.few_strategies * count_strategies(portfolio.component().problem);
}

bool is_idle(Portfolio& portfolio, const SolverParameters::Folded& tuning) {
  return portfolio.relaxation().is_stuck() && portfolio.idle_rounds() >= tuning.most_idle_rounds;
}

}  // namespace

bool is_near_end(const Portfolio& portfolio, const SolveContext& context) {
  const double longest = std::max(portfolio.seconds_of_round(), context.longest_presolve);
  return portfolio.component().deadline.left() <
         context.parameters().improve.least_rounds_left * longest;
}

void log_progress(const Portfolio& portfolio, const Subproblem& rest) {
  const AssignmentProblem& problem = portfolio.component().problem;
  spdlog::info(
      "{} nodes, {} edges, {} limits: bound {}, cost {}, {} of {} strategies left, {:.1f} s left",
      problem.nodes.size(), problem.edges.size(), problem.usage_limits.size(), portfolio.bound(),
      portfolio.cost(), count_strategies(rest.problem), count_strategies(problem),
      rest.deadline.left());
}

void find_prices(const Deadline& deadline, Portfolio& portfolio,
                 const SolverParameters::Folded& tuning) {
  Cost before = 0;
  const auto is_near = [&] {
    const Cost gain = portfolio.bound() - std::exchange(before, portfolio.bound());
    return is_known(portfolio.goal()) &&
           static_cast<double>(gain) < tuning.least_gain * static_cast<double>(portfolio.bound());
  };
  while (!portfolio.run(deadline, true, 1) && !is_near() && !is_idle(portfolio, tuning)) {
  }
}

bool begin_folded(bool is_chain, Portfolio& portfolio, const SolveContext& context) {
  const SolverParameters::Folded& tuning = context.parameters().folded;
  const Subproblem& component = portfolio.component();
  const auto folding = Folding::make(component.problem);
  if (!folding) return false;
  Subproblem folded{.problem = folding->problem(),
                    .cutoff = component.cutoff,
                    .prices = portfolio.relaxation().prices(),
                    .deadline = component.deadline.share(tuning.share),
                    .patience = component.patience,
                    .is_root = false};
  SolverParameters parameters = context.parameters();
  if (is_chain) parameters.portfolio.share_of_recombination *= tuning.part_of_recombination;
  Portfolio few(folded, context.threads, context.options.seed, parameters);
  // The whole's searches go on from it: no need to wait for its own to be stuck.
  if (is_chain)
    find_prices(folded.deadline, few, tuning);
  else
    while (!few.run(folded.deadline, true, 1) && !is_idle(few, tuning)) {
    }
  portfolio.start_from(few, *folding);
  return true;
}

std::optional<Subproblem> improve_until_stuck(Portfolio& portfolio,
                                              const SolverParameters& parameters) {
  const Deadline first =
      portfolio.component().deadline.share(parameters.improve.share_of_first_run);
  const double few = few_strategies(portfolio, parameters);
  int rounds = parameters.improve.first_rounds;
  while (!portfolio.run(first, true, rounds)) {
    rounds *= parameters.improve.growth_of_rounds;
    if (!is_known(portfolio.goal())) continue;
    // A gap need not be closed to rule most strategies out.
    Subproblem rest =
        fix_by_reduced_cost(portfolio, portfolio.relaxation().min_marginals(), portfolio.goal());
    if (count_strategies(rest.problem) <= few) return rest;
  }
  return std::nullopt;
}

bool try_lower_goal(const MinMarginals& min_marginals, double seconds, double& goal_part,
                    SolveContext& context, Portfolio& portfolio) {
  const double step = context.parameters().improve.step_of_goals;
  const double few = few_strategies(portfolio, context.parameters());
  const double gap = static_cast<double>(portfolio.goal() - portfolio.bound());
  for (goal_part += step; goal_part < 1; goal_part += step) {
    const Cost goal = portfolio.goal() - static_cast<Cost>(goal_part * gap);
    if (count_below(min_marginals, goal) > few) continue;
    Subproblem lower = fix_by_reduced_cost(portfolio, min_marginals, goal);
    if (context.options.log) log_progress(portfolio, lower);
    lower.deadline = lower.deadline.within_work(seconds);
    portfolio.offer(solve_subproblem(std::move(lower), context), goal);
    return true;
  }
  goal_part = 0;
  return false;
}

}  // namespace autopar::assignment
