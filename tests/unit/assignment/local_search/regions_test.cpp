#include "assignment/local_search/regions.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "unit/assignment/brute_force.h"
#include "unit/assignment/small_problems.h"

using namespace autopar;
using namespace autopar::assignment;

namespace {

UsageTree usage_of(const AssignmentProblem& problem, const Choice& choice) {
  UsageTree usage(problem.usage_limits);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const auto& node = problem.nodes[i];
    usage.add(node.first, node.end, node.usages[static_cast<std::size_t>(choice[i])]);
  }
  return usage;
}

std::vector<double> sums_of(const std::vector<double>& prices) {
  std::vector<double> sums(prices.size() + 1, 0.0);
  std::partial_sum(prices.begin(), prices.end(), sums.begin() + 1);
  return sums;
}

/// Moves regions so often, and requires of each move what it says. The last choice.
Choice moved(const AssignmentProblem& problem, Choice choice, const std::vector<double>& prices,
             int times, unsigned seed) {
  Regions regions(problem, {});
  std::mt19937_64 random(seed);
  for (int k = 0; k < times; ++k) {
    const auto move = regions.find(choice, usage_of(problem, choice), sums_of(prices), random, {});
    if (!move) continue;
    const Cost before = cost_of(problem, choice);
    for (std::size_t place = 0; place < move->nodes.size(); ++place) {
      choice[static_cast<std::size_t>(move->nodes[place])] = move->strategies[place];
    }
    REQUIRE(move->saved > 0);
    REQUIRE(cost_of(problem, choice) == before - move->saved);
    REQUIRE(within_limits(problem, choice));
  }
  CHECK(regions.seconds() > 0);
  return choice;
}

}  // namespace

TEST_CASE("moves of regions save what they say, keep limits, and mostly lead to the optimum") {
  std::mt19937 random(131);
  int asked = 0;
  int optimal = 0;
  for (int round = 0; round < 600; ++round) {
    const AssignmentProblem problem = random_compressed_problem(random);
    const Choice start = random_choice(random, problem);
    if (!within_limits(problem, start) || cost_of(problem, start) >= impossible) continue;
    CAPTURE(round);
    const auto prices = random_prices(random, problem.usage_limits.size());
    const Choice end = moved(problem, start, prices, 40, 1);
    ++asked;
    if (cost_of(problem, end) == solve_by_brute_force(problem).cost) ++optimal;
  }
  CHECK(asked > 50);
  CHECK(optimal > asked * 9 / 10);
}

TEST_CASE("the same seed draws the same regions") {
  std::mt19937 random(132);
  for (int round = 0; round < 100; ++round) {
    const AssignmentProblem problem = random_compressed_problem(random);
    const Choice start = random_choice(random, problem);
    if (!within_limits(problem, start) || cost_of(problem, start) >= impossible) continue;
    const std::vector<double> prices(problem.usage_limits.size(), 0.0);
    CHECK(moved(problem, start, prices, 3, 7) == moved(problem, start, prices, 3, 7));
  }
}
