#include "unit/assignment/brute_force.h"

#include "base/error.h"
#include "base/stopwatch.h"
#include "unit/assignment/random_problem.h"

namespace autopar::assignment {

Solution solve_by_brute_force(const AssignmentProblem& problem) {
  check(problem);
  const Stopwatch stopwatch;
  double choices = 1;
  for (const auto& node : problem.nodes) choices *= static_cast<double>(node.costs.size());
  require(choices <= 1e8, "brute force is for at most 10^8 choices");

  Solution best{.status = Status::infeasible, .choice = {}, .lower_bound = impossible};
  for_each_choice(problem, [&](const std::vector<int>& choice) {
    const Cost cost = cost_of(problem, choice);
    if (cost >= best.cost || !within_limits(problem, choice)) return;
    best.status = Status::optimal;
    best.choice = choice;
    best.cost = best.lower_bound = cost;
  });
  best.seconds = stopwatch.seconds();
  return best;
}

}  // namespace autopar::assignment
