// Reduced-cost fixing (Dantzig, Fulkerson and Johnson 1954) with min-marginals in the place of
// reduced costs: a strategy whose min-marginal is not below a goal is in no choice below the goal.

#include "assignment/phases.h"

namespace autopar::assignment {

Subproblem fix_by_reduced_cost(const Subproblem& subproblem, const MinMarginals& min_marginals,
                               const std::vector<double>& prices, Cost goal) {
  Subproblem rest = subproblem;
  rest.cutoff = goal;
  rest.prices = prices;
  rest.starts.clear();
  for (std::size_t i = 0; i < rest.problem.nodes.size(); ++i) {
    auto& costs = rest.problem.nodes[i].costs;
    for (std::size_t s = 0; s < costs.size(); ++s) {
      if (min_marginals[i][s] >= goal) costs[s] = impossible;
    }
  }
  return rest;
}

Subproblem fix_by_reduced_cost(Portfolio& portfolio, const MinMarginals& min_marginals, Cost goal) {
  Subproblem rest = fix_by_reduced_cost(portfolio.component(), min_marginals,
                                        portfolio.relaxation().prices(), goal);
  if (!portfolio.choice().empty()) rest.starts = {portfolio.choice()};
  return rest;
}

bool is_worth_presolving(const Subproblem& rest, const Subproblem& whole,
                         const SolverParameters& parameters) {
  return count_strategies(rest.problem) <=
         parameters.fixing.worthwhile_rest * count_strategies(whole.problem);
}

}  // namespace autopar::assignment
