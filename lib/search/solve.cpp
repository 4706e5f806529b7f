// Presolve, take components apart, eliminate where no limit is and tables stay small, and hand what
// remains to GLPK.

#include <algorithm>
#include <optional>

#include "search/assignment_problem.h"
#include "search/components.h"
#include "search/elimination.h"
#include "search/presolve.h"
#include "search/stopwatch.h"
#include "search/usage_rows.h"

namespace autopar::search {

namespace {

constexpr std::size_t most_cells_of_a_table = 4'000'000;

/// True where no sum of possible costs comes near `impossible`, as the reductions need it.
bool has_moderate_costs(const AssignmentProblem& problem) {
  WideCost sum = 0;
  const auto add_largest = [&](const std::vector<Cost>& costs) {
    Cost largest = 0;
    for (const Cost cost : costs) {
      if (cost < impossible)
        largest = std::max(largest, cost < 0 ? -std::max(cost, -impossible) : cost);
    }
    sum += largest;
  };
  for (const auto& node : problem.nodes) add_largest(node.costs);
  for (const auto& edge : problem.edges) add_largest(edge.costs);
  return sum < impossible / 4;
}

Solution solve_component(const AssignmentProblem& problem, const SolveOptions& options) {
  if (problem.usage_limits.empty()) {
    if (const auto choice = choose_by_elimination(problem, most_cells_of_a_table)) {
      const Cost cost = cost_of(problem, *choice);
      return {.status = Status::optimal, .choice = *choice, .cost = cost, .lower_bound = cost};
    }
  }
  return solve_with_glpk(problem, options);
}

/// The parts' solutions as one of the whole core.
class Assembly {
 public:
  explicit Assembly(const AssignmentProblem& core) : choice_(core.nodes.size(), 0) {}
  void add(const std::vector<int>& nodes, const Solution& part) {
    bound_ += part.lower_bound;
    glpk_seconds_ += part.glpk_seconds;
    is_infeasible_ = is_infeasible_ || part.status == Status::infeasible;
    is_known_ = is_known_ && !part.choice.empty();
    for (std::size_t k = 0; k < part.choice.size(); ++k) {
      choice_[static_cast<std::size_t>(nodes[k])] = part.choice[k];
    }
  }
  Solution solution(const AssignmentProblem& problem, const Presolved& presolved) const {
    Solution result;
    result.glpk_seconds = glpk_seconds_;
    if (is_infeasible_) {
      result.status = Status::infeasible;
      result.lower_bound = impossible;
      return result;
    }
    const WideCost bound = bound_ + presolved.constant;
    result.lower_bound = static_cast<Cost>(std::clamp<WideCost>(bound, -impossible, impossible));
    if (!is_known_) return result;
    std::vector<int> choice = presolved.original(choice_);
    const Cost cost = cost_of(problem, choice);
    if (cost >= impossible || !within_limits(problem, choice)) return result;
    result.choice = std::move(choice);
    result.cost = cost;
    result.status = cost == result.lower_bound ? Status::optimal : Status::feasible;
    return result;
  }

 private:
  std::vector<int> choice_;
  WideCost bound_ = 0;
  double glpk_seconds_ = 0;
  bool is_infeasible_ = false;
  bool is_known_ = true;
};

Solution solve_presolved(const AssignmentProblem& problem, const SolveOptions& options,
                         const Stopwatch& stopwatch) {
  const std::optional<Presolved> presolved = presolve(problem);
  if (!presolved) return {.status = Status::infeasible, .choice = {}, .lower_bound = impossible};
  const AssignmentProblem& core = presolved->core;
  Assembly assembly(core);
  for (const std::vector<int>& nodes : components(core)) {
    AssignmentProblem part = subproblem(core, nodes);
    if (!compress_usage(part))
      return {.status = Status::infeasible, .choice = {}, .lower_bound = impossible};
    SolveOptions left = options;
    left.time_limit_seconds = std::max(0.0, options.time_limit_seconds - stopwatch.seconds());
    assembly.add(nodes, solve_component(part, left));
  }
  return assembly.solution(problem, *presolved);
}

}  // namespace

Solution solve(const AssignmentProblem& problem, const SolveOptions& options) {
  check(problem);
  const Stopwatch stopwatch;
  if (!options.presolve || !has_moderate_costs(problem)) return solve_with_glpk(problem, options);
  Solution solution = solve_presolved(problem, options, stopwatch);
  solution.seconds = stopwatch.seconds();
  return solution;
}

}  // namespace autopar::search
