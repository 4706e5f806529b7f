#include "assignment/local_search/recombination.h"

#include <catch2/catch.hpp>

#include "unit/assignment/brute_force.h"
#include "unit/assignment/small_problems.h"

using namespace autopar::assignment;

namespace {

/// The cheapest choice within the limits that takes each node's strategy from one of those given.
Solution best_of(AssignmentProblem problem, const std::vector<std::vector<int>>& choices) {
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    auto& costs = problem.nodes[i].costs;
    for (std::size_t s = 0; s < costs.size(); ++s) {
      bool is_met = false;
      for (const auto& choice : choices) is_met = is_met || choice[i] == static_cast<int>(s);
      if (!is_met) costs[s] = impossible;
    }
  }
  return solve_by_brute_force(problem);
}

}  // namespace

TEST_CASE("a recombination is the best that the choices that were met have between them") {
  std::mt19937 random(191);
  int better = 0;
  int feasible = 0;
  for (int round = 0; round < 300; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 5, round % 4);
    std::vector<std::vector<int>> choices;
    Cost cheapest = impossible;
    Recombination recombination(problem);
    for (int k = draw(random, 1, 4); k > 0; --k) {
      choices.push_back(random_choice(random, problem));
      if (draw(random, 0, 1) == 0) {
        recombination.add(choices.back());
      } else {
        recombination.keep(choices.back());
      }
      if (within_limits(problem, choices.back())) {
        cheapest = std::min(cheapest, cost_of(problem, choices.back()));
      }
    }
    const Solution truth = best_of(problem, choices);
    const auto prices = random_prices(random, problem.usage_limits.size());
    const auto found = recombination.run({}, impossible, prices, {});
    CAPTURE(round);
    REQUIRE(found.empty() == (truth.status == Status::infeasible));
    if (found.empty()) continue;
    REQUIRE(within_limits(problem, found));
    REQUIRE(cost_of(problem, found) == truth.cost);
    REQUIRE(recombination.run({}, truth.cost, prices, {}).empty());
    better += truth.cost < cheapest ? 1 : 0;
    ++feasible;
  }
  CHECK(feasible > 50);
  CHECK(better > 20);
}

TEST_CASE("the best choice known is always part of a recombination") {
  std::mt19937 random(192);
  int feasible = 0;
  for (int round = 0; round < 200; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 3, 1);
    const auto best = random_choice(random, problem);
    const Cost cost = cost_of(problem, best);
    if (cost >= impossible || !within_limits(problem, best)) continue;
    Recombination recombination(problem);
    recombination.add(random_choice(random, problem));
    const auto prices = random_prices(random, problem.usage_limits.size());
    const auto found = recombination.run(best, cost + 1, prices, {});
    CAPTURE(round);
    REQUIRE_FALSE(found.empty());
    REQUIRE(cost_of(problem, found) <= cost);
    ++feasible;
  }
  CHECK(feasible > 20);
}
