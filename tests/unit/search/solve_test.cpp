#include <catch2/catch.hpp>

#include "random_problem.h"
#include "search/assignment_problem.h"

using namespace autopar::search;

namespace {

void require_equal(const AssignmentProblem& problem, const Solution& found, const Solution& truth) {
  REQUIRE(found.status == truth.status);
  REQUIRE(found.cost == truth.cost);
  REQUIRE(found.lower_bound == truth.cost);
  if (truth.status == Status::infeasible) {
    REQUIRE(found.choice.empty());
    return;
  }
  REQUIRE(cost_of(problem, found.choice) == found.cost);
  REQUIRE(within_limits(problem, found.choice));
}

}  // namespace

TEST_CASE("solve equals brute force on random small problems") {
  std::mt19937 random(20250301);
  for (int round = 0; round < 1500; ++round) {
    const AssignmentProblem problem = random_problem(random);
    CAPTURE(round);
    require_equal(problem, solve(problem, {}), solve_by_brute_force(problem));
  }
}

TEST_CASE("branch and bound without GLPK equals brute force") {
  std::mt19937 random(20250302);
  for (int round = 0; round < 1500; ++round) {
    const AssignmentProblem problem = random_problem(random);
    CAPTURE(round);
    require_equal(problem, solve(problem, {.most_strategies_for_glpk = 0}),
                  solve_by_brute_force(problem));
  }
}

TEST_CASE("solve agrees with GLPK on the whole, and is the same each time") {
  std::mt19937 random(61);
  for (int round = 0; round < 150; ++round) {
    AssignmentProblem problem = random_problem(random);
    // Several small ones side by side, joined by the limits alone.
    for (int more = draw(random, 1, 4); more > 0; --more) {
      AssignmentProblem other = random_problem(random);
      const int shift = static_cast<int>(problem.nodes.size());
      for (auto& edge : other.edges) {
        problem.edges.push_back({edge.a + shift, edge.b + shift, std::move(edge.costs)});
      }
      for (auto& node : other.nodes) problem.nodes.push_back(std::move(node));
    }
    for (auto& limit : problem.usage_limits) limit *= 3;
    CAPTURE(round);
    const Solution found = solve(problem, {});
    require_equal(problem, found, solve(problem, {.presolve = false}));
    REQUIRE(solve(problem, {}).choice == found.choice);
  }
}

TEST_CASE("without time the status is honest and solve's bound holds") {
  std::mt19937 random(67);
  for (int round = 0; round < 300; ++round) {
    const AssignmentProblem problem = random_problem(random);
    const Solution truth = solve_by_brute_force(problem);
    const Solution found = solve(problem, {.time_limit_seconds = 0});
    CAPTURE(round);
    REQUIRE(found.lower_bound <= truth.cost);
    REQUIRE((found.status == Status::optimal) ==
            (!found.choice.empty() && found.cost == found.lower_bound));
    if (found.status == Status::infeasible) REQUIRE(truth.status == Status::infeasible);
    if (found.choice.empty()) continue;
    REQUIRE(within_limits(problem, found.choice));
    REQUIRE(cost_of(problem, found.choice) == found.cost);
  }
}

TEST_CASE("costs beyond what doubles hold are summed exactly") {
  AssignmentProblem problem;
  for (int i = 0; i < 3; ++i) {
    problem.nodes.push_back(
        {.costs = {-20'000'000'000'000'000 + i, 20'000'000'000'000'000}, .usages = {0, 0}});
    problem.nodes.back().end = 1;
  }
  problem.edges = {{.a = 0, .b = 1, .costs = {impossible, 5, 7, impossible}}};
  require_equal(problem, solve(problem, {}), solve_by_brute_force(problem));
}
