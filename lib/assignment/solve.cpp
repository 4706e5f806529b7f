// The solver's outline. Presolve and split into components. Solve each exactly where that is
// quick: by elimination without limits, with labels under limits, small ones by GLPK. Else improve
// choices and bounds side by side; fix strategies by reduced cost and solve what is left in the
// same way; search below goals between bound and cost; branch. Every level works on a smaller
// problem, and hands an incumbent back.

#include <algorithm>
#include <optional>
#include <thread>

#include "assignment/assignment_problem.h"
#include "assignment/elimination/goal_search.h"
#include "assignment/exact/branch.h"
#include "assignment/exact/glpk_solver.h"
#include "assignment/exact/solve_exactly.h"
#include "assignment/local_search/improve.h"
#include "assignment/presolve/components.h"
#include "assignment/presolve/core_incumbent.h"
#include "assignment/presolve/presolve.h"
#include "assignment/relaxation/reduced_cost_fixing.h"
#include "assignment/subproblem.h"
#include "base/stopwatch.h"

namespace autopar::assignment {

namespace {

/// Improves, fixes, searches below goals and branches by turns, in slices of work that grow.
Incumbent alternate(const Subproblem& component, SolveContext& context) {
  const SolverParameters& parameters = context.parameters();
  const double begin = context.clock.seconds();
  Portfolio portfolio(component.problem, component.cutoff, component.prices, component.starts,
                      component.patience.cost_elsewhere, context.threads, context.options.seed,
                      parameters);
  const auto solve_rest = [&](Subproblem rest) {
    const Incumbent known = portfolio.incumbent();
    return combine(known, solve_subproblem(std::move(rest), context), portfolio.goal());
  };
  if (auto rest = improve_until_stuck(component, parameters, portfolio)) {
    return solve_rest(std::move(*rest));
  }
  double slice = context.clock.seconds() - begin;
  double label_seconds = std::max(parameters.goals.least_seconds, portfolio.seconds_to_relax());
  for (double goal_part = 0; !is_finished(component, portfolio); slice *= 2) {
    if (is_near_end(component, portfolio, context)) {
      portfolio.run(component.deadline, component.patience, false);
      break;
    }
    const MinMarginals min_marginals = portfolio.relaxation().min_marginals();
    Subproblem rest = fix_by_reduced_cost(component, min_marginals, portfolio.relaxation(),
                                          portfolio.choice(), portfolio.goal());
    if (context.options.log) log_progress(component, rest, portfolio);
    if (is_worth_presolving(rest, component, parameters)) return solve_rest(std::move(rest));
    if (rest.problem.nodes.size() <= parameters.exact.most_nodes_for_labels) {
      search_below_goals(component, min_marginals, label_seconds, context, portfolio);
      label_seconds *= 2;
    }
    if (is_finished(component, portfolio)) break;
    if (is_near_end(component, portfolio, context)) continue;
    bool is_certain = true;
    if (portfolio.seconds_to_relax() < parameters.branch.share_to_relax * slice) {
      rest.deadline = component.deadline.within_work(slice);
      portfolio.offer(branch(rest, context), portfolio.goal());
    } else {
      is_certain = try_lower_goal(component, min_marginals, slice, goal_part, context, portfolio);
    }
    if (is_finished(component, portfolio)) break;
    portfolio.perturb();
    portfolio.run(component.deadline.within_work(slice), component.patience, is_certain);
  }
  return portfolio.incumbent();
}

Incumbent solve_component(const Subproblem& component, SolveContext& context) {
  if (std::optional<Incumbent> exact = solve_exactly(component, context)) return *exact;
  return component.is_root ? alternate(component, context) : branch(component, context);
}

int threads_of(const SolveOptions& options) {
  const int of_machine = static_cast<int>(std::thread::hardware_concurrency());
  return options.threads > 0 ? options.threads : std::max(1, of_machine);
}

Solution solution_of(Incumbent incumbent) {
  if (incumbent.is_infeasible()) return {.status = Status::infeasible, .lower_bound = impossible};
  const bool is_optimal = incumbent.cost <= incumbent.bound;
  Solution solution{.cost = incumbent.cost, .lower_bound = incumbent.bound};
  if (!incumbent.choice.empty()) {
    solution.status = is_optimal ? Status::optimal : Status::feasible;
  }
  solution.choice = std::move(incumbent.choice);
  return solution;
}

std::optional<Presolved> presolve_counted(Subproblem& whole, SolveContext& context) {
  whole.deadline.count(size_of(whole.problem) / context.parameters().work.presolved_a_second);
  const Stopwatch stopwatch;
  auto presolved =
      presolve(std::move(whole.problem), std::move(whole.prices), context.parameters().presolve);
  context.longest_presolve = std::max(context.longest_presolve, stopwatch.seconds());
  return presolved;
}

}  // namespace

double count_strategies(const AssignmentProblem& problem) {
  double count = 0;
  for (const auto& node : problem.nodes) {
    count += static_cast<double>(
        std::ranges::count_if(node.costs, [](Cost cost) { return cost < impossible; }));
  }
  return count;
}

Incumbent solve_subproblem(Subproblem whole, SolveContext& context) {
  std::optional<Presolved> presolved = presolve_counted(whole, context);
  if (!presolved) return infeasible_incumbent();
  CoreIncumbent core(*presolved);
  const auto starts = starts_of_core(whole, *presolved);
  const auto parts = components_in_sweep_order(presolved->core);
  double strategies_left = count_strategies(presolved->core);
  std::vector<AssignmentProblem> problems = subproblems(std::move(presolved->core), parts);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const double strategies = count_strategies(problems[k]);
    const auto component = component_of(whole, *presolved, std::move(problems[k]), parts[k], starts,
                                        core, strategies / strategies_left);
    strategies_left -= strategies;
    if (!component) return infeasible_incumbent();
    const Incumbent solved = solve_component(*component, context);
    if (solved.is_infeasible()) return infeasible_incumbent();
    core.add(parts[k], solved);
  }
  return core.of_whole(*presolved);
}

Solution solve(const AssignmentProblem& problem, const SolveOptions& options) {
  check(problem);
  const Stopwatch stopwatch;
  if (!options.presolve || !has_moderate_costs(problem)) return solve_with_glpk(problem, options);
  WorkClock clock;
  const Deadline patience =
      Deadline(unlimited_seconds, clock).within_work(options.patience_seconds);
  SolveContext context{options, clock, threads_of(options)};
  Incumbent incumbent = solve_subproblem({.problem = problem,
                                          .starts = options.starts,
                                          .deadline = Deadline(options.time_limit_seconds, clock),
                                          .patience = {patience, options.small_gap}},
                                         context);
  for (const auto& start : options.starts) {
    // The reductions may have taken away what the start holds.
    const Cost cost = cost_of(problem, start);
    if (cost >= incumbent.cost || !within_limits(problem, start)) continue;
    incumbent = make_incumbent(start, cost, incumbent.bound);
  }
  Solution solution = solution_of(std::move(incumbent));
  solution.seconds = stopwatch.seconds();
  solution.glpk_seconds = context.glpk_seconds;
  return solution;
}

}  // namespace autopar::assignment
