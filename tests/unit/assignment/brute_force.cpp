#include "unit/assignment/brute_force.h"

#include "assignment/assignment_problem.h"
#include "base/error.h"
#include "base/stopwatch.h"

namespace autopar::assignment {

Solution solve_by_brute_force(const AssignmentProblem& problem) {
  check(problem);
  const Stopwatch stopwatch;
  double choices = 1;
  for (const auto& node : problem.nodes) choices *= static_cast<double>(node.costs.size());
  require(choices <= 1e8, "brute force is for at most 10^8 choices");

  Solution best{.status = Status::infeasible, .choice = {}, .lower_bound = impossible};
  std::vector<int> choice(problem.nodes.size(), 0);
  const auto next_choice = [&] {  // counts up, the last node fastest
    for (std::size_t i = choice.size(); i-- > 0;) {
      if (static_cast<std::size_t>(++choice[i]) < problem.nodes[i].costs.size()) return true;
      choice[i] = 0;
    }
    return false;
  };
  do {
    const Cost cost = cost_of(problem, choice);
    if (cost < best.cost && within_limits(problem, choice)) {
      best.status = Status::optimal;
      best.choice = choice;
      best.cost = best.lower_bound = cost;
    }
  } while (next_choice());
  best.seconds = stopwatch.seconds();
  return best;
}

}  // namespace autopar::assignment
