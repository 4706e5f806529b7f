// Solves assignment problems by GLPK: reduce, hand the integer program (integer_program.h) over,
// and believe the answer only where its price agrees.

#include <algorithm>
#include <cmath>

#include "assignment/exact/integer_program.h"
#include "assignment/presolve/reduced_problem.h"

namespace autopar::assignment {

namespace {

/// GLPK's tolerances, relative to the objective.
constexpr double rounding = 1e-7;

/// A bound in doubles as an integer that rounding cannot have lifted above the truth.
WideCost safe_ceiling(double bound) {
  return static_cast<WideCost>(std::ceil(bound - rounding * (1 + std::abs(bound))));
}

/// True where some set's least usage exceeds its limit.
bool beyond_reach(const ReducedProblem& problem, const std::vector<LimitedSet>& limits) {
  return std::ranges::any_of(limits, [&](const LimitedSet& set) {
    WideCost least = 0;
    for (const int i : set.nodes) {
      least += std::ranges::min(problem.nodes[static_cast<std::size_t>(i)].usages);
    }
    return least > set.limit;
  });
}

void solve(const AssignmentProblem& problem, const SolveOptions& options, const Deadline& deadline,
           Solution& solution) {
  solution.status = Status::infeasible;
  solution.lower_bound = impossible;
  const std::optional<ReducedProblem> reduced = reduce(problem);
  if (!reduced) return;
  const std::vector<LimitedSet> limits = limited_sets(*reduced, problem.usage_limits);
  if (beyond_reach(*reduced, limits)) return;

  solution.status = Status::unknown;
  solution.lower_bound = saturated(reduced->constant);
  const auto offer = [&](const std::vector<int>& choice) {
    const Cost cost = cost_of(problem, choice);
    if (cost >= solution.cost || !within_limits(problem, choice)) return;
    solution.choice = choice;
    solution.cost = cost;
    solution.status = Status::feasible;
  };
  std::ranges::for_each(options.starts, offer);
  if (solution.cost == solution.lower_bound) {
    solution.status = Status::optimal;
    return;
  }

  const auto incumbent = solution.choice.empty() ? std::nullopt : reduced->reduced(solution.choice);
  const IntegerSolution result =
      solve_integer_program(*reduced, limits, incumbent, deadline, options.parameters, options.log);
  solution.glpk_seconds = result.seconds;
  if (result.outcome == Outcome::infeasible) {
    if (!solution.choice.empty()) return;  // the choice at hand proves GLPK wrong
    solution.status = Status::infeasible;
    solution.lower_bound = impossible;
    return;
  }
  bool agrees = false;
  if (result.choice) {
    const std::vector<int> choice = reduced->original(*result.choice);
    offer(choice);
    const double price = static_cast<double>(cost_of(problem, choice) - reduced->constant);
    agrees = within_limits(problem, choice) &&
             std::abs(price - result.objective) <= 0.5 + rounding * std::abs(price);
  }
  if (result.outcome == Outcome::optimal && agrees) {
    solution.status = Status::optimal;
    solution.lower_bound = solution.cost;
    return;
  }
  const Cost bound = saturated(reduced->constant + safe_ceiling(result.bound));
  solution.lower_bound = std::clamp(bound, solution.lower_bound, solution.cost);
}

}  // namespace

Solution solve_with_glpk(const AssignmentProblem& problem, const SolveOptions& options,
                         const std::optional<Deadline>& deadline) {
  check(problem);
  const Stopwatch stopwatch;
  Solution solution;
  solve(problem, options, deadline ? *deadline : Deadline(options.time_limit_seconds), solution);
  solution.seconds = stopwatch.seconds();
  return solution;
}

}  // namespace autopar::assignment
