#include "assignment/elimination/elimination.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "unit/assignment/random_problem.h"

using namespace autopar::assignment;

namespace {

AssignmentProblem problem_of(std::mt19937& random, const std::vector<int>& strategies,
                             const std::function<int()>& edges_of_pair) {
  AssignmentProblem problem;
  const auto costs = [&](std::size_t count) {
    std::vector<Cost> made(count);
    for (Cost& each : made) each = draw(random, 0, 9) == 0 ? impossible : draw(random, 0, 100);
    return made;
  };
  for (const int count : strategies) {
    auto& node = problem.nodes.emplace_back();
    node.costs = costs(static_cast<std::size_t>(count));
    node.usages.assign(node.costs.size(), 0);
  }
  for (int b = 0; b < std::ssize(strategies); ++b)
    for (int a = 0; a < b; ++a)
      for (int k = edges_of_pair(); k > 0; --k)
        problem.edges.push_back(
            {a, b, costs(problem.nodes[a].costs.size() * problem.nodes[b].costs.size())});
  return problem;
}

/// Nodes of up to 13 strategies each, and an edge or two between each pair: rows and columns of
/// tables that no tile of the elimination divides, some of them added up before.
AssignmentProblem clique(std::mt19937& random) {
  const int nodes = draw(random, 3, 4);
  std::vector<int> strategies;
  for (int i = 0; i < nodes; ++i) strategies.push_back(draw(random, 1, nodes == 3 ? 13 : 9));
  return problem_of(random, strategies, [&] { return draw(random, 1, 3); });
}

/// Six nodes, some of whose pairs have no edge: tables of tables, of which some join a few nodes.
AssignmentProblem sparse(std::mt19937& random) {
  std::vector<int> strategies = {draw(random, 8, 10), draw(random, 8, 10), 2, 3, 3, 2};
  std::ranges::shuffle(strategies, random);
  return problem_of(random, strategies, [&] { return draw(random, 0, 9) < 6 ? 1 : 0; });
}

}  // namespace

TEST_CASE("elimination finds the cheapest choice where nodes have many strategies") {
  std::mt19937 random(51);
  int possible = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const AssignmentProblem problem = round % 2 == 0 ? clique(random) : sparse(random);
    Cost least = impossible;
    for_each_choice(
        problem, [&](const Choice& choice) { least = std::min(least, cost_of(problem, choice)); });
    for (const EliminationOrder order : elimination_orders) {
      const auto found = choose_by_elimination(problem, {.order = order});
      REQUIRE(found.has_value() == (least < impossible));
      if (found) CHECK(cost_of(problem, *found) == least);
    }
    possible += least < impossible ? 1 : 0;
  }
  CHECK(possible > 200);
}
