#include "assignment/elimination/held_elimination.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "unit/assignment/brute_force.h"
#include "unit/assignment/small_problems.h"

using namespace autopar::assignment;

namespace {

/// A chain is eliminated with so few cells, one with a node that joins all others is not.
HeldElimination::Limits limits(int most_held) {
  return {.most_held = most_held, .most_cells = 100};
}

/// A chain of nodes and `hubs` that are joined to each of them, without limits.
AssignmentProblem chain_with_hubs(std::mt19937& random, int nodes, int hubs) {
  AssignmentProblem problem;
  const auto costs = [&](int count) {
    std::vector<Cost> made;
    for (int k = 0; k < count; ++k)
      made.push_back(draw(random, 0, 9) == 0 ? impossible : draw(random, 0, 50));
    made[draw(random, 0, count - 1)] = 7;
    return made;
  };
  const auto add_edge = [&](int a, int b) {
    const auto cells = problem.nodes[a].costs.size() * problem.nodes[b].costs.size();
    problem.edges.push_back({a, b, costs(static_cast<int>(cells))});
  };
  for (int i = 0; i < nodes + hubs; ++i) {
    auto& node = problem.nodes.emplace_back();
    node.costs = costs(draw(random, 1, 3));
    node.usages.assign(node.costs.size(), 0);
  }
  for (int i = 1; i < nodes; ++i) add_edge(i - 1, i);
  for (int hub = nodes; hub < nodes + hubs; ++hub)
    for (int i = 0; i < nodes; ++i) draw(random, 0, 1) == 0 ? add_edge(i, hub) : add_edge(hub, i);
  return problem;
}

/// The least cost of the choices that hold the hubs at the strategies of `start`.
Cost least_with_hubs(AssignmentProblem problem, int nodes, const Choice& start) {
  for (int hub = nodes; hub < std::ssize(problem.nodes); ++hub) {
    auto& costs = problem.nodes[hub].costs;
    for (int s = 0; s < std::ssize(costs); ++s)
      if (s != start[hub]) costs[s] = impossible;
  }
  return solve_by_brute_force(problem).cost;
}

}  // namespace

TEST_CASE("a chain is completed at best for what is held, and bounded whatever is held") {
  std::mt19937 random(12);
  int tight = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const int nodes = draw(random, 7, 8);
    const int hubs = draw(random, 0, 2);
    const AssignmentProblem problem = chain_with_hubs(random, nodes, hubs);
    const Cost optimum = solve_by_brute_force(problem).cost;
    const auto held = HeldElimination::make(problem, limits(hubs));
    REQUIRE(held);
    double cells = 0;
    const auto relaxed = held->relaxed(problem, {}, cells);
    if (relaxed.choice.empty()) {
      CHECK(optimum >= impossible);
      continue;
    }
    CHECK(cells > 0);
    CHECK(relaxed.bound <= optimum);
    CHECK(cost_of(problem, relaxed.choice) >= optimum);
    if (hubs == 0) CHECK(relaxed.bound == optimum);
    tight += relaxed.bound == optimum ? 1 : 0;
    Choice choice = held->complete(problem, relaxed.choice, {}, cells);
    const bool is_all_held = hubs == 0 || !HeldElimination::make(problem, limits(hubs - 1));
    if (choice.empty()) {
      CHECK(least_with_hubs(problem, nodes, relaxed.choice) >= impossible);
      continue;
    }
    if (is_all_held)
      CHECK(cost_of(problem, choice) == least_with_hubs(problem, nodes, relaxed.choice));
    const Cost before = cost_of(problem, choice);
    const bool has_moved = held->move_held(problem, choice);
    CHECK((has_moved ? cost_of(problem, choice) < before : cost_of(problem, choice) == before));
  }
  CHECK(tight > 100);
}

TEST_CASE("what is held is as little as leaves small tables, and no more than is allowed") {
  std::mt19937 random(13);
  AssignmentProblem problem = chain_with_hubs(random, 8, 2);
  for (auto& node : problem.nodes) node = {{0, 0, 0}, {0, 0, 0}, 0, 0};
  for (auto& edge : problem.edges) edge.costs = std::vector<Cost>(9, 1);
  CHECK_FALSE(HeldElimination::make(problem, limits(1)));
  REQUIRE(HeldElimination::make(problem, limits(2)));
  double cells = 0;
  CHECK(HeldElimination::make(problem, limits(8))->relaxed(problem, {}, cells).bound ==
        std::ssize(problem.edges));
  const auto over = HeldElimination::make(problem, {.most_held = 2});
  CHECK(over->relaxed(problem, Deadline(0), cells).choice.empty());
  CHECK(over->relaxed(problem, Deadline(0), cells).bound == 0);
  CHECK(over->complete(problem, Choice(problem.nodes.size(), 0), Deadline(0), cells).empty());
}
