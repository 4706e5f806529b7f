#include <catch2/catch.hpp>

#include <thread>

#include "assignment/assignment_problem.h"
#include "assignment/least_peak.h"
#include "unit/assignment/brute_force.h"
#include "unit/assignment/random_problem.h"

using namespace autopar::assignment;

namespace {

/// A contest-like instance of five nodes by hand, with overlapping intervals. The optimum without
/// limits breaks the limit of 45 at times 5 and 6.
AssignmentProblem five_nodes() {
  AssignmentProblem problem;
  problem.nodes = {{.costs = {15}, .usages = {10}, .first = 3, .end = 7},
                   {.costs = {55, 65}, .usages = {25, 20}, .first = 4, .end = 7},
                   {.costs = {25, 45, 35}, .usages = {15, 20, 15}, .first = 5, .end = 12},
                   {.costs = {85, 75}, .usages = {10, 10}, .first = 11, .end = 14},
                   {.costs = {95}, .usages = {15}, .first = 11, .end = 15}};
  problem.edges = {{.a = 0, .b = 1, .costs = {30, 40}},
                   {.a = 0, .b = 2, .costs = {50, 10, 40}},
                   {.a = 1, .b = 3, .costs = {90, 10, 20, 80}},
                   {.a = 2, .b = 4, .costs = {60, 20, 30}},
                   {.a = 3, .b = 4, .costs = {70, 60}}};
  return problem;
}

/// Binary decisions in a ring of odd cycles with costs that pull apart: the relaxation is
/// fractional and branching is needed.
AssignmentProblem frustrated(int nodes, int limit) {
  AssignmentProblem problem;
  std::mt19937 random(7);
  for (int i = 0; i < nodes; ++i) {
    problem.nodes.push_back({.costs = {0, draw(random, 0, 3)},
                             .usages = {draw(random, 5, 30), 0},
                             .first = 0,
                             .end = 1});
  }
  for (int i = 0; i < nodes; ++i) {
    for (const int step : {1, 2, 5}) {
      const Cost c = draw(random, 1, 20);
      problem.edges.push_back({.a = i, .b = (i + step) % nodes, .costs = {c, 0, 0, c}});
    }
  }
  problem.usage_limits = {limit};
  return problem;
}

}  // namespace

TEST_CASE("GLPK's optimum equals brute force on random small problems") {
  std::mt19937 random(20240601);
  int infeasible = 0;
  int limited = 0;
  for (int round = 0; round < 1000; ++round) {
    const AssignmentProblem problem = random_problem(random);
    const Solution truth = solve_by_brute_force(problem);
    const Solution found = solve_with_glpk(problem, {});
    CAPTURE(round);
    REQUIRE(found.status == truth.status);
    REQUIRE(found.cost == truth.cost);
    REQUIRE(found.lower_bound == truth.cost);
    if (truth.status == Status::infeasible) {
      ++infeasible;
      REQUIRE(found.choice.empty());
      continue;
    }
    REQUIRE(cost_of(problem, found.choice) == found.cost);
    REQUIRE(within_limits(problem, found.choice));
    AssignmentProblem free = problem;
    free.usage_limits.clear();
    limited += solve_by_brute_force(free).cost < truth.cost ? 1 : 0;
  }
  // The problems are worth solving: many are infeasible, and in many a limit makes the difference.
  CHECK(infeasible > 100);
  CHECK(limited > 60);
}

TEST_CASE("without time the status is honest and the bound holds") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const AssignmentProblem problem = random_problem(random);
    const Solution truth = solve_by_brute_force(problem);
    const Solution found = solve_with_glpk(problem, {.time_limit_seconds = 0});
    CAPTURE(round);
    REQUIRE(found.lower_bound <= truth.cost);
    if (found.status == Status::optimal) {
      REQUIRE(found.cost == truth.cost);
      REQUIRE(found.lower_bound == found.cost);
    }
    if (found.status == Status::infeasible) REQUIRE(truth.status == Status::infeasible);
    if (found.status == Status::feasible) {
      REQUIRE(within_limits(problem, found.choice));
      REQUIRE(cost_of(problem, found.choice) == found.cost);
    }
    if (found.status == Status::unknown) REQUIRE(found.choice.empty());
  }
}

TEST_CASE("five nodes by hand: the optimum, and the dearer one that a limit leaves") {
  AssignmentProblem problem = five_nodes();
  const Solution free = solve_with_glpk(problem, {});
  CHECK(free.status == Status::optimal);
  CHECK(free.cost == solve_by_brute_force(problem).cost);
  problem.usage_limits.assign(15, 45);
  const Solution limited = solve_with_glpk(problem, {});
  CHECK(limited.status == Status::optimal);
  CHECK(limited.cost == solve_by_brute_force(problem).cost);
  CHECK(limited.cost > free.cost);
  problem.usage_limits.assign(15, 44);
  CHECK(solve_with_glpk(problem, {}).status == Status::infeasible);
}

TEST_CASE("costs of 10^11 with differences of 1 are told apart") {
  AssignmentProblem problem = five_nodes();
  for (auto& node : problem.nodes) {
    for (Cost& cost : node.costs) cost = cost * 1'000'000'000 + cost % 7;
  }
  for (auto& edge : problem.edges) {
    for (Cost& cost : edge.costs.edit()) cost = cost * 1'000'000'000 + cost % 11;
  }
  CHECK(solve_with_glpk(problem, {}).cost == solve_by_brute_force(problem).cost);
}

TEST_CASE("problems that need branching are solved and proven") {
  for (const int limit : {-1, 120, 60, 20}) {
    const AssignmentProblem problem = frustrated(14, limit);
    const Solution truth = solve_by_brute_force(problem);
    const Solution found = solve_with_glpk(problem, {});
    CAPTURE(limit);
    CHECK(found.status == truth.status);
    CHECK(found.cost == truth.cost);
  }
}

TEST_CASE("where the time runs out, the start or better comes with a bound below it") {
  const AssignmentProblem problem = frustrated(150, 700);
  const auto start = find_least_peak(problem, 0, 1, {.time_limit_seconds = 1});
  REQUIRE(start);
  for (const double seconds : {0.0, 0.1, 0.4}) {
    const Solution found =
        solve_with_glpk(problem, {.time_limit_seconds = seconds, .starts = {start->choice}});
    CAPTURE(seconds);
    REQUIRE((found.status == Status::feasible || found.status == Status::optimal));
    CHECK(within_limits(problem, found.choice));
    CHECK(found.cost == cost_of(problem, found.choice));
    CHECK(found.lower_bound <= found.cost);
    CHECK((found.status == Status::optimal) == (found.lower_bound == found.cost));
  }
}

TEST_CASE("a problem without nodes is solved at no cost") {
  const Solution found = solve_with_glpk({}, {});
  CHECK(found.status == Status::optimal);
  CHECK(found.cost == 0);
}

TEST_CASE("two threads may solve at the same time") {
  const AssignmentProblem problem = frustrated(14, 60);
  Cost costs[2] = {};
  std::thread other([&] { costs[0] = solve_with_glpk(problem, {}).cost; });
  costs[1] = solve_with_glpk(problem, {}).cost;
  other.join();
  CHECK(costs[0] == costs[1]);
}
