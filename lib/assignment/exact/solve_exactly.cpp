#include "assignment/elimination/elimination.h"
#include "assignment/elimination/label_search.h"
#include "assignment/phases.h"

namespace autopar::assignment {

namespace {

std::optional<Incumbent> eliminate(const AssignmentProblem& problem, double most_cells) {
  auto choice = choose_by_elimination(problem, {.most_cells_of_a_table = most_cells});
  if (!choice) return std::nullopt;
  const Cost cost = cost_of(problem, *choice);
  return make_incumbent(std::move(*choice), cost, cost);
}

Incumbent solve_by_glpk(const Subproblem& component, SolveContext& context) {
  SolveOptions options = context.options;
  options.starts = component.starts;
  Solution solution = solve_with_glpk(component.problem, options, component.deadline);
  context.glpk_seconds += solution.glpk_seconds;
  return {std::move(solution.choice), solution.cost, solution.lower_bound};
}

std::optional<Incumbent> solve_by_labels(const Subproblem& component, SolveContext& context) {
  auto found = search_labels(component.problem, component.prices,
                             {.goal = component.cutoff, .deadline = component.deadline},
                             context.parameters());
  if (!found || !found->is_exact) return std::nullopt;
  if (!found->choice) return Incumbent{.bound = component.cutoff};
  const Cost cost = cost_of(component.problem, *found->choice);
  return make_incumbent(std::move(*found->choice), cost, cost);
}

}  // namespace

std::optional<Incumbent> solve_exactly(const Subproblem& component, SolveContext& context) {
  const AssignmentProblem& problem = component.problem;
  const SolverParameters::Exact& parameters = context.parameters().exact;
  if (problem.usage_limits.empty()) return eliminate(problem, parameters.most_cells_of_a_table);
  if (problem.nodes.size() <= parameters.most_nodes_for_labels)
    if (auto solved = solve_by_labels(component, context)) return solved;
  if (count_strategies(problem) > parameters.most_strategies_for_glpk) return std::nullopt;
  return solve_by_glpk(component, context);
}

}  // namespace autopar::assignment
