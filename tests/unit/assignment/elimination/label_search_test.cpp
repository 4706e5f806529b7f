#include "assignment/elimination/label_search.h"

#include <catch2/catch.hpp>

#include "unit/assignment/brute_force.h"
#include "unit/assignment/small_problems.h"

using namespace autopar::assignment;

TEST_CASE("a search of labels equals brute force, whatever the prices") {
  std::mt19937 random(181);
  int feasible = 0;
  for (int round = 0; round < 400; ++round) {
    const AssignmentProblem problem =
        round % 2 == 0 ? random_problem(random)
                       : random_limited_problem(random, 1 + round % 6, round % 5);
    const Solution truth = solve_by_brute_force(problem);
    const auto prices = random_prices(random, problem.usage_limits.size());
    const auto found = search_labels(problem, prices, {});
    CAPTURE(round);
    REQUIRE(found);
    REQUIRE(found->is_exact);
    REQUIRE(found->bound == truth.cost);
    REQUIRE(found->choice.has_value() == (truth.status == Status::optimal));
    if (!found->choice) continue;
    REQUIRE(cost_of(problem, *found->choice) == truth.cost);
    REQUIRE(within_limits(problem, *found->choice));
    ++feasible;
  }
  CHECK(feasible > 200);
}

TEST_CASE("short of comparisons, a search of labels tells no more than is true") {
  std::mt19937 random(182);
  int inexact = 0;
  for (int round = 0; round < 300; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 6, round % 5);
    const Solution truth = solve_by_brute_force(problem);
    const auto prices = random_prices(random, problem.usage_limits.size());
    const auto found =
        search_labels(problem, prices, {.most_comparisons = 1.0 * draw(random, 1, 4000)});
    CAPTURE(round);
    REQUIRE(found);
    REQUIRE(found->bound <= truth.cost);
    inexact += found->is_exact ? 0 : 1;
    if (!found->choice) continue;
    REQUIRE(within_limits(problem, *found->choice));
    REQUIRE(cost_of(problem, *found->choice) >= truth.cost);
  }
  CHECK(inexact > 30);
}

TEST_CASE("a search of labels finds nothing that costs its goal, and says so") {
  std::mt19937 random(183);
  int compared = 0;
  for (int round = 0; round < 100; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 4, round % 3);
    const Solution truth = solve_by_brute_force(problem);
    if (truth.status == Status::infeasible) continue;
    CAPTURE(round);
    const auto below = search_labels(problem, {}, {.goal = truth.cost});
    REQUIRE(below);
    REQUIRE_FALSE(below->choice);
    REQUIRE(below->is_exact);
    REQUIRE(below->bound == truth.cost);
    const auto above = search_labels(problem, {}, {.goal = truth.cost + 1});
    REQUIRE(above);
    REQUIRE(above->choice);
    REQUIRE(cost_of(problem, *above->choice) == truth.cost);
    ++compared;
  }
  CHECK(compared > 50);
}

TEST_CASE("a search of labels says where tables are too large") {
  std::mt19937 random(184);
  int refused = 0;
  for (int round = 0; round < 50; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 4, 8);
    refused += search_labels(problem, {}, {.most_cells = 20}) ? 0 : 1;
  }
  CHECK(refused > 10);
}
