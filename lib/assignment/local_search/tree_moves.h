#pragma once

#include <vector>

#include "assignment/local_search/free_trees.h"

namespace autopar::assignment {

/// What free nodes cost beside those that are kept, by place and strategy (FreeTrees::Place).
struct TreeCosts {
  std::vector<double> fixed;   ///< its own cost, and its arcs to nodes that are kept
  std::vector<double> priced;  ///< what its usage pays
  std::vector<double> values;  ///< scratch of proposals
};

/// A price on usage at one time.
struct Bump {
  int time;
  double price;
};

/// The work of a step: how many costs and arcs it looked at.
struct LookedAt {
  double costs = 0;
  double arcs = 0;
};

/// Fills `into`; a unit of usage from one time to another pays the difference of `price_until`.
LookedAt sum_costs(const AssignmentProblem& problem, const FreeTrees& trees, const Choice& choice,
                   const std::vector<double>& price_until, TreeCosts& into);

/// By place, the cheapest strategies under a multiple of the prices and the bumps, exactly, by
/// dynamic programming over the trees; `present` ones where none is better.
LookedAt propose(const AssignmentProblem& problem, const FreeTrees& trees, TreeCosts& tree_costs,
                 double weight_of_prices, const std::vector<Bump>& bumps,
                 const std::vector<int>& present, std::vector<int>& proposal);

/// What the strategies of the places cost, prices aside.
double cost_of_places(const FreeTrees& trees, const TreeCosts& tree_costs,
                      const std::vector<int>& strategies);

/// How much more usage pays after a change of strategies than before.
double more_paid(const FreeTrees& trees, const TreeCosts& tree_costs,
                 const std::vector<int>& before, const std::vector<int>& after);

}  // namespace autopar::assignment
