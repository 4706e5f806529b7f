#include "assignment/local_search/needless_changes.h"

#include <catch2/catch.hpp>

using namespace autopar::assignment;

namespace {

/// Two pairs of nodes, 0-1 and 2-3, each joined by an edge that wants equal strategies, all free.
AssignmentProblem two_pairs() {
  AssignmentProblem problem;
  for (int i = 0; i < 4; ++i) problem.nodes.push_back({{0, 0}, {1, 1}, 0, 1});
  for (const int first : {0, 2}) problem.edges.push_back({first, first + 1, {0, 9, 9, 0}});
  return problem;
}

}  // namespace

TEST_CASE("a part that is as good as before goes back, the fixed node's stays") {
  const AssignmentProblem problem = two_pairs();
  CHECK(without_needless_changes(problem, {0, 0, 0, 0}, {1, 1, 1, 1}, 0) == Choice{1, 1, 0, 0});
  CHECK(without_needless_changes(problem, {0, 0, 0, 0}, {1, 1, 1, 1}, 3) == Choice{0, 0, 1, 1});
}

TEST_CASE("a part that is cheaper than before stays") {
  AssignmentProblem problem = two_pairs();
  problem.nodes[3].costs[0] = 1;
  CHECK(without_needless_changes(problem, {0, 0, 0, 0}, {1, 1, 1, 1}, 0) == Choice{1, 1, 1, 1});
}

TEST_CASE("a part stays where going back would break the limit") {
  AssignmentProblem problem = two_pairs();
  problem.usage_limits = {6};
  problem.nodes[0].usages[1] = 3;  // what the fixed node now needs, the other pair must spare
  problem.nodes[2].usages[0] = 2;
  CHECK(without_needless_changes(problem, {0, 0, 0, 0}, {1, 1, 1, 1}, 0) == Choice{1, 1, 1, 1});
  problem.usage_limits = {7};
  CHECK(without_needless_changes(problem, {0, 0, 0, 0}, {1, 1, 1, 1}, 0) == Choice{1, 1, 0, 0});
}

TEST_CASE("a change within one joined part goes back with all of it or not at all") {
  AssignmentProblem problem = two_pairs();
  problem.edges.push_back({1, 2, {0, 9, 9, 0}});
  CHECK(without_needless_changes(problem, {0, 0, 0, 0}, {1, 1, 1, 1}, 0) == Choice{1, 1, 1, 1});
}
