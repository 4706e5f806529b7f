// Solves assignment problems by GLPK: reduce, hand the integer program (integer_program.h) over,
// and believe the answer only where its price agrees.

#include "assignment/exact/glpk_solver.h"

#include <algorithm>
#include <cmath>

#include "assignment/exact/integer_program.h"
#include "assignment/presolve/reduced_problem.h"
#include "assignment/saturating.h"

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

/// Keeps the cheapest choice within the limits.
class Best {
 public:
  Best(const AssignmentProblem& problem, Solution& solution)
      : problem_(problem), solution_(solution) {}
  void offer(const std::vector<int>& choice) {
    const Cost cost = cost_of(problem_, choice);
    if (cost >= solution_.cost || !within_limits(problem_, choice)) return;
    solution_.choice = choice;
    solution_.cost = cost;
    solution_.status = Status::feasible;
  }

 private:
  const AssignmentProblem& problem_;
  Solution& solution_;
};

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
  Best best(problem, solution);
  for (const auto& start : options.starts) best.offer(start);
  if (solution.cost == solution.lower_bound) {
    solution.status = Status::optimal;
    return;
  }

  const auto incumbent = solution.choice.empty() ? std::nullopt : reduced->reduced(solution.choice);
  IntegerProgram program(*reduced, limits, options.parameters.work);
  const Stopwatch glpk;
  const IntegerProgram::Result result = program.solve(incumbent, deadline, options.log);
  solution.glpk_seconds = glpk.seconds();
  if (result.outcome == IntegerProgram::Outcome::infeasible) {
    if (!solution.choice.empty()) return;  // the choice at hand proves GLPK wrong
    solution.status = Status::infeasible;
    solution.lower_bound = impossible;
    return;
  }
  bool agrees = false;
  if (result.choice) {
    const std::vector<int> choice = reduced->original(*result.choice);
    best.offer(choice);
    const double price = static_cast<double>(cost_of(problem, choice) - reduced->constant);
    agrees = within_limits(problem, choice) &&
             std::abs(price - result.objective) <= 0.5 + rounding * std::abs(price);
  }
  if (result.outcome == IntegerProgram::Outcome::optimal && agrees) {
    solution.status = Status::optimal;
    solution.lower_bound = solution.cost;
    return;
  }
  const Cost bound = saturated(reduced->constant + safe_ceiling(result.bound));
  solution.lower_bound = std::clamp(bound, solution.lower_bound, solution.cost);
}

}  // namespace

Solution solve_with_glpk(const AssignmentProblem& problem, const SolveOptions& options) {
  return solve_with_glpk(problem, options, Deadline(options.time_limit_seconds));
}

Solution solve_with_glpk(const AssignmentProblem& problem, const SolveOptions& options,
                         const Deadline& deadline) {
  check(problem);
  const Stopwatch stopwatch;
  Solution solution;
  solve(problem, options, deadline, solution);
  solution.seconds = stopwatch.seconds();
  return solution;
}

}  // namespace autopar::assignment
