#include "assignment/local_search/partial_choice.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "unit/assignment/random_problem.h"

using namespace autopar::assignment;

namespace {

AssignmentProblem::Node node_of(std::vector<Cost> costs) {
  const std::size_t count = costs.size();
  return {std::move(costs), std::vector<std::int64_t>(count, 0), 0, 0};
}

/// Operators 0 and 1 with an edge of their own, and both served by node 2.
AssignmentProblem pair_of_operators() {
  AssignmentProblem problem;
  problem.nodes = {node_of({5, 7}), node_of({1, 2}), node_of({0, 3})};
  problem.edges = {{0, 1, {0, 10, 20, 0}}, {0, 2, {0, 4, 6, 0}}, {2, 1, {1, 8, 9, 2}}};
  return problem;
}

std::vector<long> as_longs(const std::vector<WideCost>& costs) {
  return {costs.begin(), costs.end()};
}

}  // namespace

TEST_CASE("open serving nodes count with their best answer") {
  const AssignmentProblem problem = pair_of_operators();
  PartialChoice partial(problem, 2);
  CHECK(as_longs(partial.resharding(0)) == std::vector<long>{0, 3});
  CHECK(partial.take_open_neighbours(0) == std::vector<int>{1, 1});
  partial.decide(1, 1);
  // Strategy 0: the edge's 10, and of node 2 either 0+0+8 or 3+4+2; strategy 1: 0, and 6+8 or 3+2.
  CHECK(as_longs(partial.resharding(0)) == std::vector<long>{18, 5});
  CHECK(as_longs(partial.estimate(0)) == std::vector<long>{23, 12});
  CHECK(partial.take_open_neighbours(0).empty());
}

TEST_CASE("what the last operator is estimated at is what the choice then costs") {
  std::mt19937 random(7);
  int compared = 0;
  for (int round = 0; round < 200; ++round) {
    // A star of operators around one serving node, the last.
    const int operators = draw(random, 1, 5);
    AssignmentProblem problem;
    const auto costs = [&](int count) {
      std::vector<Cost> result;
      for (int s = 0; s < count; ++s) result.push_back(draw(random, 0, 30));
      return result;
    };
    for (int i = 0; i <= operators; ++i) problem.nodes.push_back(node_of(costs(3)));
    for (int i = 0; i < operators; ++i) problem.edges.push_back({i, operators, costs(9)});
    PartialChoice partial(problem, operators);
    std::vector<int> choice(problem.nodes.size(), 0);
    Cost others = 0;
    for (int i = 1; i < operators; ++i) {
      choice[static_cast<std::size_t>(i)] = draw(random, 0, 2);
      partial.decide(i, choice[static_cast<std::size_t>(i)]);
      others += problem.nodes[static_cast<std::size_t>(i)]
                    .costs[static_cast<std::size_t>(choice[static_cast<std::size_t>(i)])];
    }
    const std::vector<WideCost> estimate = partial.estimate(0);
    for (int s = 0; s < 3; ++s) {
      choice[0] = s;
      Cost least = impossible;
      for (int t = 0; t < 3; ++t) {
        choice.back() = t;
        least = std::min(least, cost_of(problem, choice));
      }
      CAPTURE(round, s);
      CHECK(static_cast<Cost>(estimate[static_cast<std::size_t>(s)]) + others == least);
      ++compared;
    }
  }
  CHECK(compared == 600);
}
