#include "assignment/elimination/limited_elimination.h"

#include <catch2/catch.hpp>

#include "unit/assignment/brute_force.h"
#include "unit/assignment/small_problems.h"

using namespace autopar;
using namespace autopar::assignment;

namespace {

std::optional<LabelAnswer> eliminate(const AssignmentProblem& problem,
                                     const std::vector<double>& prices,
                                     const LabelOptions& options = {}) {
  const auto tables = LimitedElimination::make(problem, prices, 1e7, {});
  if (!tables) return std::nullopt;
  return tables->run(options);
}

/// Rough prices: elimination is exact whatever they are.
std::vector<double> some_prices(std::mt19937& random, const AssignmentProblem& problem) {
  auto prices = random_prices(random, problem.usage_limits.size());
  if (draw(random, 0, 2) == 0) std::ranges::fill(prices, 0.0);
  return prices;
}

}  // namespace

TEST_CASE("elimination under 1 to 5 limits equals brute force") {
  std::mt19937 random(111);
  int feasible = 0;
  for (int round = 0; round < 250; ++round) {
    const int limits = 1 + round % 5;
    const AssignmentProblem problem = random_limited_problem(random, limits, round % 4);
    const Solution truth = solve_by_brute_force(problem);
    const auto found = eliminate(problem, some_prices(random, problem));
    CAPTURE(round, limits);
    REQUIRE(found);
    REQUIRE(found->bound == truth.cost);
    REQUIRE(!found->choice == (truth.status == Status::infeasible));
    if (!found->choice) continue;
    ++feasible;
    REQUIRE(cost_of(problem, *found->choice) == truth.cost);
    REQUIRE(within_limits(problem, *found->choice));
  }
  CHECK(feasible > 150);
}

TEST_CASE("elimination says nothing wrong of random problems with impossible parts") {
  std::mt19937 random(112);
  int exact = 0;
  int limited = 0;
  for (int round = 0; round < 400; ++round) {
    const AssignmentProblem problem = random_compressed_problem(random);
    const Solution truth = solve_by_brute_force(problem);
    const auto found = eliminate(problem, some_prices(random, problem));
    CAPTURE(round);
    ++limited;
    if (!found) continue;
    REQUIRE(found->bound <= truth.cost);
    exact += found->bound == truth.cost ? 1 : 0;
    if (!found->choice) continue;
    REQUIRE(found->bound == truth.cost);
    REQUIRE(cost_of(problem, *found->choice) == truth.cost);
    REQUIRE(within_limits(problem, *found->choice));
  }
  CHECK(exact > limited * 9 / 10);
}

TEST_CASE("a goal above the optimum changes nothing, one below it is the bound") {
  std::mt19937 random(113);
  int compared = 0;
  for (int round = 0; round < 150; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 4, round % 3);
    const Solution truth = solve_by_brute_force(problem);
    if (truth.status == Status::infeasible) continue;
    const auto prices = some_prices(random, problem);
    CAPTURE(round);
    for (const Cost above : {1, 17}) {
      const auto found = eliminate(problem, prices, {.goal = truth.cost + above});
      REQUIRE(found);
      REQUIRE(found->bound == truth.cost);
      REQUIRE(cost_of(problem, *found->choice) == truth.cost);
      REQUIRE(within_limits(problem, *found->choice));
    }
    for (const Cost below : {Cost{0}, Cost{1}, truth.cost / 3}) {
      const auto found = eliminate(problem, prices, {.goal = truth.cost - below});
      REQUIRE(found);
      REQUIRE(found->bound == truth.cost - below);
      REQUIRE_FALSE(found->choice);
    }
    ++compared;
  }
  CHECK(compared > 80);
}

TEST_CASE("in narrow lists, what was dropped bounds what may be cheaper") {
  std::mt19937 random(116);
  int cut = 0;
  int above_the_optimum = 0;
  int useful = 0;
  for (int round = 0; round < 400; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 5, round % 4);
    const Solution truth = solve_by_brute_force(problem);
    const auto prices = some_prices(random, problem);
    const auto without_labels = eliminate(problem, prices, {.most_comparisons = 0});
    const auto found =
        eliminate(problem, prices, {.width = 1 + static_cast<std::size_t>(round % 3)});
    CAPTURE(round);
    REQUIRE(found);
    REQUIRE(found->bound <= truth.cost);
    REQUIRE(found->bound >= without_labels->bound);
    if (found->choice) {
      REQUIRE(within_limits(problem, *found->choice));
      REQUIRE(cost_of(problem, *found->choice) >= truth.cost);
    }
    if (found->is_exact) {
      REQUIRE(found->bound == truth.cost);
      continue;
    }
    ++cut;
    useful += found->bound > without_labels->bound ? 1 : 0;
    above_the_optimum += !found->choice || cost_of(problem, *found->choice) > truth.cost ? 1 : 0;
  }
  CHECK(cut > 50);
  CHECK(useful > 20);
  CHECK(above_the_optimum > 20);
}

TEST_CASE("elimination gives up where tables, labels or time are too many or short") {
  std::mt19937 random(115);
  const AssignmentProblem problem = random_limited_problem(random, 3, 2);
  const std::vector<double> prices(problem.usage_limits.size(), 0.0);
  CHECK_FALSE(LimitedElimination::make(problem, prices, 5, {}));
  CHECK_FALSE(LimitedElimination::make(problem, prices, 1e6, Deadline(0)));
  const auto tables = LimitedElimination::make(problem, prices, 1e6, {});
  REQUIRE(tables);
  CHECK(tables->run({}).is_exact);
  CHECK_FALSE(tables->run({.most_comparisons = 5}).is_exact);
}
