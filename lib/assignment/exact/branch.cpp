// Branch and bound over the Lagrangian relaxation (Land and Doig 1960; Geoffrion 1974).

#include <algorithm>
#include <utility>

#include "assignment/phases.h"

namespace autopar::assignment {

namespace {

/// The undecided node with the most edges, such as a tensor that every layer reads; first those
/// with several strategies whose min-marginals are near the bound.
int node_that_decides_most(const AssignmentProblem& problem, const MinMarginals& min_marginals,
                           Cost bound, Cost goal, int likely_parts_of_gap) {
  const auto links = links_of(problem);
  const Cost slack = (goal - bound) / likely_parts_of_gap;
  int decisive = 0;
  std::pair<bool, std::ptrdiff_t> most{false, -1};
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const auto& bounds = min_marginals[i];
    const auto possible = std::ranges::count_if(bounds, [&](Cost b) { return b < goal; });
    if (possible < 2) continue;
    const auto likely = std::ranges::count_if(bounds, [&](Cost b) { return b <= bound + slack; });
    const std::pair key{likely > 1, std::ssize(links[i])};
    if (key <= most) continue;
    most = key;
    decisive = static_cast<int>(i);
  }
  return decisive;
}

/// The answers of both halves together: with one strategy of a node alone, and without it.
Incumbent solve_halves(Subproblem rest, int node, std::ptrdiff_t strategy, SolveContext& context) {
  Subproblem one = rest;
  auto& costs = rest.problem.nodes[node].costs;
  std::ranges::fill(one.problem.nodes[node].costs, impossible);
  one.problem.nodes[node].costs[strategy] = std::exchange(costs[strategy], impossible);
  Incumbent with = solve_subproblem(std::move(one), context);
  rest.cutoff = std::min(rest.cutoff, with.cost);
  Incumbent without = solve_subproblem(std::move(rest), context);
  const Cost bound = std::min(with.bound, without.bound);
  Incumbent& better = without.cost < with.cost ? without : with;
  return make_incumbent(std::move(better.choice), better.cost, bound);
}

}  // namespace

Incumbent branch(const Subproblem& component, SolveContext& context) {
  const SolverParameters& parameters = context.parameters();
  const double rate = parameters.work.costs_a_second;
  Relaxation relaxation(component.problem, component.prices, component.patience.cost_elsewhere,
                        parameters.relaxation);
  const double most = component.deadline.work_left() * rate;
  const double done = relaxation.advance(most, component.cutoff, component.deadline);
  component.deadline.count(done / rate);
  Incumbent relaxed = make_incumbent(relaxation.choice(), relaxation.cost(), relaxation.bound());
  const Cost goal = std::min(relaxed.cost, component.cutoff);
  const Cost bound = relaxation.bound();
  if (bound >= goal || component.deadline.is_over()) return relaxed;

  const MinMarginals min_marginals = relaxation.min_marginals();
  Subproblem rest = fix_by_reduced_cost(component, min_marginals, relaxation.prices(), goal);
  rest.is_root = false;
  if (is_worth_presolving(rest, component, parameters)) {
    return combine(relaxed, solve_subproblem(std::move(rest), context), goal);
  }
  const int node = node_that_decides_most(rest.problem, min_marginals, relaxation.bound(), goal,
                                          parameters.branch.likely_parts_of_gap);
  const auto& bounds = min_marginals[node];
  const auto likely = std::ranges::min_element(bounds) - bounds.begin();
  return combine(relaxed, solve_halves(std::move(rest), node, likely, context), goal);
}

}  // namespace autopar::assignment
