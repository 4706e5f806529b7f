#include "assignment/elimination/elimination.h"

#include <catch2/catch.hpp>

#include "unit/assignment/random_problem.h"

using namespace autopar::assignment;

namespace {

/// Nodes of up to 13 strategies each, and an edge or two between each pair: rows and columns of
/// tables that no tile of the elimination divides, some of them added up before.
AssignmentProblem clique(std::mt19937& random, int nodes) {
  AssignmentProblem problem;
  const auto cost = [&]() -> Cost {
    return draw(random, 0, 9) == 0 ? impossible : draw(random, 0, 100);
  };
  for (int i = 0; i < nodes; ++i) {
    auto& node = problem.nodes.emplace_back();
    for (int s = draw(random, 1, nodes == 3 ? 13 : 9); s > 0; --s) node.costs.push_back(cost());
    node.usages.assign(node.costs.size(), 0);
  }
  for (int b = 0; b < nodes; ++b)
    for (int a = 0; a < b; ++a)
      for (int k = draw(random, 0, 2); k >= 0; --k) {
        std::vector<Cost> costs(problem.nodes[static_cast<std::size_t>(a)].costs.size() *
                                problem.nodes[static_cast<std::size_t>(b)].costs.size());
        for (Cost& each : costs) each = cost();
        problem.edges.push_back({a, b, std::move(costs)});
      }
  return problem;
}

}  // namespace

TEST_CASE("elimination finds the cheapest choice of cliques of many strategies") {
  std::mt19937 random(51);
  int possible = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const AssignmentProblem problem = clique(random, draw(random, 3, 4));
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
  CHECK(possible > 100);
}
