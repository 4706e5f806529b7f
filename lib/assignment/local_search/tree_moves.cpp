#include "assignment/local_search/tree_moves.h"

#include <algorithm>
#include <limits>
#include <span>

#include "assignment/min_plus.h"

namespace autopar::assignment {

LookedAt sum_costs(const AssignmentProblem& problem, const FreeTrees& trees, const Choice& choice,
                   const std::vector<double>& price_until, TreeCosts& into) {
  const ArcCosts& costs = trees.costs();
  LookedAt looked_at;
  into.fixed.resize(trees.values());
  into.priced.resize(trees.values());
  for (const FreeTrees::Place& place : trees.places()) {
    const auto& node = problem.nodes[place.node];
    const std::size_t count = node.costs.size();
    const double price = price_until[node.end] - price_until[node.first];
    double* fixed = &into.fixed[place.values];
    for (std::size_t s = 0; s < count; ++s) {
      fixed[s] = costs.node_cost(place.node, s);
      into.priced[place.values + s] = price * static_cast<double>(node.usages[s]);
    }
    for (const ArcCosts::Arc& arc : costs.arcs(place.node)) {
      if (trees.is_free(arc.other)) continue;
      const double* row = costs.row(arc, choice[arc.other]);
      for (std::size_t s = 0; s < count; ++s) fixed[s] += row[s];
    }
    const double arcs = static_cast<double>(costs.arcs(place.node).size());
    looked_at.arcs += arcs;
    looked_at.costs += static_cast<double>(count) * arcs;
  }
  return looked_at;
}

namespace {

void price_values(const AssignmentProblem& problem, const FreeTrees& trees, double weight_of_prices,
                  const std::vector<Bump>& bumps, TreeCosts& tree_costs) {
  tree_costs.values.resize(trees.values());
  for (const FreeTrees::Place& place : trees.places()) {
    const auto& node = problem.nodes[place.node];
    double price = 0;
    for (const Bump& bump : bumps) {
      if (node.first <= bump.time && bump.time < node.end) price += bump.price;
    }
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      const std::size_t v = place.values + s;
      tree_costs.values[v] = tree_costs.fixed[v] + weight_of_prices * tree_costs.priced[v] +
                             price * static_cast<double>(node.usages[s]);
    }
  }
}

/// Adds to each parent's values what the tree at its child costs at least.
LookedAt sum_up_trees(const FreeTrees& trees, std::vector<double>& values) {
  const ArcCosts& costs = trees.costs();
  LookedAt looked_at;
  std::vector<double> least;
  const auto& places = trees.places();
  for (std::size_t k = places.size(); k-- > 0;) {
    const FreeTrees::Place& place = places[k];
    if (place.parent < 0) continue;
    const FreeTrees::Place& parent = places[place.parent];
    const std::size_t count = costs.strategies(place.node);
    const std::size_t parents = costs.strategies(parent.node);
    least.assign(parents, std::numeric_limits<double>::infinity());
    const ArcCosts::Arc& of_parent = costs.arc(place.arc->reverse);
    lower_to_sums(costs.row(of_parent, 0), std::span(values).subspan(place.values, count), least);
    double* into = &values[parent.values];
    for (std::size_t t = 0; t < parents; ++t) into[t] += least[t];
    looked_at.arcs += 1;
    looked_at.costs += static_cast<double>(count * parents);
  }
  return looked_at;
}

}  // namespace

LookedAt propose(const AssignmentProblem& problem, const FreeTrees& trees, TreeCosts& tree_costs,
                 double weight_of_prices, const std::vector<Bump>& bumps,
                 const std::vector<int>& present, std::vector<int>& proposal) {
  const ArcCosts& costs = trees.costs();
  price_values(problem, trees, weight_of_prices, bumps, tree_costs);
  const LookedAt looked_at = sum_up_trees(trees, tree_costs.values);
  proposal.resize(present.size());
  for (std::size_t k = 0; k < present.size(); ++k) {
    const FreeTrees::Place& place = trees.places()[k];
    double* value = &tree_costs.values[place.values];
    const std::size_t count = costs.strategies(place.node);
    if (place.parent >= 0) {
      const double* row = costs.row(*place.arc, proposal[place.parent]);
      for (std::size_t s = 0; s < count; ++s) value[s] += row[s];
    }
    const double* best = std::min_element(value, value + count);
    proposal[k] = *best < value[present[k]] ? static_cast<int>(best - value) : present[k];
  }
  return looked_at;
}

double cost_of_places(const FreeTrees& trees, const TreeCosts& tree_costs,
                      const std::vector<int>& strategies) {
  double sum = 0;
  for (std::size_t k = 0; k < strategies.size(); ++k) {
    const FreeTrees::Place& place = trees.places()[k];
    sum += tree_costs.fixed[place.values + strategies[k]];
    if (place.parent < 0) continue;
    sum += trees.costs().row(*place.arc, strategies[place.parent])[strategies[k]];
  }
  return sum;
}

double more_paid(const FreeTrees& trees, const TreeCosts& tree_costs,
                 const std::vector<int>& before, const std::vector<int>& after) {
  double sum = 0;
  for (std::size_t k = 0; k < before.size(); ++k) {
    const double* priced = &tree_costs.priced[trees.places()[k].values];
    sum += priced[after[k]] - priced[before[k]];
  }
  return sum;
}

}  // namespace autopar::assignment
