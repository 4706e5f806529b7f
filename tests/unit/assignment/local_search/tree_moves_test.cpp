#include "assignment/local_search/tree_moves.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "unit/assignment/small_problems.h"

using namespace autopar::assignment;

namespace {

constexpr double most = 1e6;  // what impossible costs count as

std::vector<double> sums_before(const std::vector<double>& prices) {
  std::vector<double> until{0};
  for (const double price : prices) until.push_back(until.back() + price);
  return until;
}

/// What a choice costs and pays under the prices, times a weight, and the bumps.
double priced_cost(const AssignmentProblem& problem, const ArcCosts& costs,
                   const std::vector<double>& prices, double weight, const Bump& bump,
                   const std::vector<int>& choice) {
  double sum = 0;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const auto& node = problem.nodes[i];
    double price = 0;
    for (int t = node.first; t < node.end; ++t) {
      price += weight * prices[t] + (t == bump.time ? bump.price : 0);
    }
    sum += costs.node_cost(i, choice[i]) + price * static_cast<double>(node.usages[choice[i]]);
    for (const ArcCosts::Arc& arc : costs.arcs(i)) {
      if (arc.other < static_cast<int>(i)) sum += costs.row(arc, choice[arc.other])[choice[i]];
    }
  }
  return sum;
}

/// The least priced cost over all strategies of the free nodes.
double least_over_free(const AssignmentProblem& problem, const FreeTrees& trees,
                       std::vector<int> choice, std::size_t place, const auto& cost_of_choice) {
  if (place == trees.places().size()) return cost_of_choice(choice);
  double least = std::numeric_limits<double>::infinity();
  const int node = trees.places()[place].node;
  for (std::size_t s = 0; s < problem.nodes[node].costs.size(); ++s) {
    choice[node] = static_cast<int>(s);
    least = std::min(least, least_over_free(problem, trees, choice, place + 1, cost_of_choice));
  }
  return least;
}

}  // namespace

TEST_CASE("free nodes touch their parents and children alone, and may be several trees") {
  std::mt19937 random(181);
  std::mt19937_64 engine(181);
  int trees_met = 0;
  int kept = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const AssignmentProblem problem = random_compressed_problem(random);
    const ArcCosts costs(problem, 1, most);
    FreeTrees trees(costs);
    for (int repeat = 0; repeat < 3; ++repeat) {
      trees.clear();
      int roots = 0;
      for (int k = 0; k < 3; ++k) {
        const int root = draw(random, 0, static_cast<int>(problem.nodes.size()) - 1);
        if (problem.nodes[root].costs.size() == 1) continue;
        const bool may_grow = trees.may_grow(root);
        const std::size_t before = trees.places().size();
        trees.grow(root, 3, engine);
        REQUIRE((trees.places().size() > before) == may_grow);
        roots += may_grow ? 1 : 0;
      }
      trees_met = std::max(trees_met, roots);
      std::vector<int> place_of(problem.nodes.size(), -1);
      for (std::size_t k = 0; k < trees.places().size(); ++k) {
        REQUIRE(place_of[trees.places()[k].node] < 0);
        place_of[trees.places()[k].node] = static_cast<int>(k);
        REQUIRE(trees.places()[k].parent < static_cast<int>(k));
      }
      for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
        REQUIRE(trees.is_free(static_cast<int>(i)) == (place_of[i] >= 0));
        kept += place_of[i] < 0 ? 1 : 0;
        if (place_of[i] < 0) continue;
        REQUIRE(problem.nodes[i].costs.size() > 1);
        for (const ArcCosts::Arc& arc : costs.arcs(i)) {
          const int other = place_of[arc.other];
          if (other < 0) continue;
          const bool is_child = trees.places()[other].parent == place_of[i];
          REQUIRE((is_child || trees.places()[place_of[i]].parent == other));
        }
      }
    }
  }
  CHECK(trees_met > 1);
  CHECK(kept > 500);
}

TEST_CASE("a proposal is the cheapest under prices and bumps, and its cost is told exactly") {
  std::mt19937 random(182);
  std::mt19937_64 engine(182);
  int changed = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const AssignmentProblem problem = random_compressed_problem(random);
    const ArcCosts costs(problem, 1, most);
    const auto prices = random_prices(random, problem.usage_limits.size());
    const Bump bump{prices.empty() ? -1 : draw(random, 0, static_cast<int>(prices.size()) - 1), 3};
    const std::vector<int> choice = random_choice(random, problem);
    FreeTrees trees(costs);
    trees.clear();
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      if (problem.nodes[i].costs.size() > 1) trees.grow(static_cast<int>(i), 2, engine);
    }
    TreeCosts tree_costs;
    sum_costs(problem, trees, choice, sums_before(prices), tree_costs);
    std::vector<int> present;
    for (const auto& place : trees.places()) present.push_back(choice[place.node]);
    std::vector<int> proposal;
    propose(problem, trees, tree_costs, 0.5, {bump}, present, proposal);
    std::vector<int> after = choice;
    for (std::size_t k = 0; k < proposal.size(); ++k) after[trees.places()[k].node] = proposal[k];

    const auto priced = [&](const std::vector<int>& of) {
      return priced_cost(problem, costs, prices, 0.5, bump, of);
    };
    REQUIRE(priced(after) == least_over_free(problem, trees, choice, 0, priced));
    const auto cost = [&](const std::vector<int>& of) {
      return priced_cost(problem, costs, prices, 0, {-1, 0}, of);
    };
    REQUIRE(cost_of_places(trees, tree_costs, proposal) -
                cost_of_places(trees, tree_costs, present) ==
            cost(after) - cost(choice));
    const auto paid = [&](const std::vector<int>& of) {
      return priced_cost(problem, costs, prices, 1, {-1, 0}, of) - cost(of);
    };
    REQUIRE(more_paid(trees, tree_costs, present, proposal) == paid(after) - paid(choice));
    changed += after == choice ? 0 : 1;
  }
  CHECK(changed > 150);
}
