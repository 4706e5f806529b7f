#include "assignment/local_search/forest_descent.h"

#include <catch2/catch.hpp>

#include "unit/assignment/brute_force.h"
#include "unit/assignment/random_problem.h"

using namespace autopar::assignment;

TEST_CASE("descent stays within the limits, costs no more than its start, and often is optimal") {
  std::mt19937 random(5);
  int optimal = 0;
  int found = 0;
  for (int round = 0; round < 400; ++round) {
    const AssignmentProblem problem = random_problem(random);
    const Solution best = solve_by_brute_force(problem);
    if (best.choice.empty()) continue;
    std::vector<int> start;
    for (const auto& node : problem.nodes) {
      start.push_back(draw(random, 0, static_cast<int>(node.costs.size()) - 1));
    }
    CAPTURE(round);
    const auto choice = descend(problem, start, 40);
    if (!choice) continue;
    ++found;
    CHECK(within_limits(problem, *choice));
    const Cost cost = cost_of(problem, *choice);
    CHECK(cost >= best.cost);
    CHECK((cost <= cost_of(problem, start) || !within_limits(problem, start)));
    optimal += cost == best.cost ? 1 : 0;
  }
  CHECK(found > 150);
  CHECK(optimal > found * 3 / 4);
}

TEST_CASE("completion is the cheapest around the fixed nodes") {
  std::mt19937 random(6);
  int compared = 0;
  for (int round = 0; round < 300; ++round) {
    AssignmentProblem problem = random_problem(random);
    problem.usage_limits.clear();
    std::vector<int> choice(problem.nodes.size(), -1);
    const int fixed = draw(random, 0, static_cast<int>(problem.nodes.size()));
    AssignmentProblem narrowed = problem;
    for (int i = 0; i < fixed; ++i) {
      auto& costs = narrowed.nodes[static_cast<std::size_t>(i)].costs;
      const int kept = draw(random, 0, static_cast<int>(costs.size()) - 1);
      choice[static_cast<std::size_t>(i)] = kept;
      for (std::size_t s = 0; s < costs.size(); ++s) {
        if (static_cast<int>(s) != kept) costs[s] = impossible;
      }
    }
    CAPTURE(round, fixed);
    const auto found = complete(problem, choice, fixed);
    const Solution best = solve_by_brute_force(narrowed);
    REQUIRE(found.has_value() == !best.choice.empty());
    if (!found) continue;
    CHECK(cost_of(narrowed, *found) == best.cost);
    ++compared;
  }
  CHECK(compared > 100);
}
