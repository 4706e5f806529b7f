#include "assignment/presolve/reduced_problem.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "assignment/cost_table.h"
#include "unit/assignment/brute_force.h"
#include "unit/assignment/small_problems.h"

using namespace autopar::assignment;

namespace {

Cost cost_of(const ReducedProblem& reduced, const std::vector<int>& choice) {
  WideCost sum = reduced.constant;
  for (std::size_t i = 0; i < choice.size(); ++i) sum += reduced.nodes[i].costs[choice[i]];
  for (const auto& edge : reduced.edges) {
    const Cost cost = edge.costs[edge.place(choice)];
    if (cost >= impossible) return impossible;
    sum += cost;
  }
  return saturated(sum);
}

/// Whether the usages of every set keep its limit.
bool within(const ReducedProblem& reduced, const std::vector<LimitedSet>& sets,
            const std::vector<int>& choice) {
  return std::ranges::all_of(sets, [&](const LimitedSet& set) {
    std::int64_t usage = 0;
    for (const int i : set.nodes) usage += reduced.nodes[i].usages[choice[i]];
    return usage <= set.limit;
  });
}

}  // namespace

TEST_CASE("reduction keeps every possible choice and its cost, and no reduction means no choice") {
  std::mt19937 random(171);
  int gone = 0;
  int impossible_problems = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const AssignmentProblem problem = random_problem(random);
    const auto reduced = reduce(problem);
    AssignmentProblem unlimited = problem;
    unlimited.usage_limits.clear();
    const Solution truth = solve_by_brute_force(unlimited);
    if (!reduced) {
      REQUIRE(truth.status == Status::infeasible);
      ++impossible_problems;
      continue;
    }
    if (truth.status == Status::optimal) REQUIRE(reduced->constant <= truth.cost);
    for_each_choice(problem, [&](const std::vector<int>& choice) {
      const Cost cost = cost_of(problem, choice);
      const auto left = reduced->reduced(choice);
      if (!left) {
        ++gone;
        REQUIRE(cost >= impossible);
        return;
      }
      REQUIRE(cost_of(*reduced, *left) == cost);
      REQUIRE(reduced->original(*left) == choice);
    });
  }
  CHECK(gone > 1000);
  CHECK(impossible_problems > 5);
}

TEST_CASE("what is reduced is normal: costs are at least 0, some of each node 0, edges tell") {
  std::mt19937 random(172);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const auto reduced = reduce(random_problem(random));
    if (!reduced) continue;
    for (const auto& node : reduced->nodes) {
      REQUIRE_FALSE(node.strategies.empty());
      REQUIRE(std::ranges::is_sorted(node.strategies));
      REQUIRE(std::ranges::min(node.costs) == 0);
    }
    std::set<std::pair<int, int>> ends;
    for (const auto& edge : reduced->edges) {
      REQUIRE(ends.emplace(std::min(edge.a, edge.b), std::max(edge.a, edge.b)).second);
      // Edges that each have a possible pair may have none in common.
      const Cost least = std::ranges::min(edge.costs);
      REQUIRE((least == 0 || least >= impossible));
      REQUIRE(std::ranges::max(edge.costs) > 0);
      // Classes differ in some cost.
      std::set<std::vector<Cost>> rows;
      const auto classes_of = [](const RowClasses& c) { return std::ssize(c.representatives); };
      for (int u = 0; u < classes_of(edge.rows); ++u) {
        std::vector<Cost> row;
        for (int v = 0; v < classes_of(edge.columns); ++v) {
          row.push_back(edge.costs[u * classes_of(edge.columns) + v]);
        }
        REQUIRE(rows.insert(row).second);
      }
    }
  }
}

TEST_CASE("limited sets hold for the same choices as the limits over time") {
  std::mt19937 random(173);
  int within_limit = 0;
  int over = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const AssignmentProblem problem = random_problem(random);
    const auto reduced = reduce(problem);
    if (!reduced) continue;
    const auto sets = limited_sets(*reduced, problem.usage_limits);
    for_each_choice(problem, [&](const std::vector<int>& choice) {
      const auto left = reduced->reduced(choice);
      if (!left) return;
      const bool is_within = within_limits(problem, choice);
      REQUIRE(within(*reduced, sets, *left) == is_within);
      (is_within ? within_limit : over) += 1;
    });
    for (const LimitedSet& set : sets) {
      WideCost most = 0;
      for (const int i : set.nodes) most += std::ranges::max(reduced->nodes[i].usages);
      REQUIRE(most > set.limit);
    }
  }
  CHECK(within_limit > 1000);
  CHECK(over > 1000);
}

TEST_CASE("equal rows are one class, sums of a row and a column term vanish, partners decide") {
  AssignmentProblem problem;
  problem.nodes.resize(3);
  for (auto& node : problem.nodes) {
    node.costs = {1, 2, 3};
    node.usages = {0, 0, 0};
  }
  problem.edges = {{.a = 0, .b = 1, .costs = {0, 5, 9, 0, 5, 9, 4, 0, 9}},
                   {.a = 1, .b = 2, .costs = {10, 20, 30, 11, 21, 31, 12, 22, 32}}};
  problem.nodes[2].costs[2] = impossible;
  const auto reduced = reduce(problem);
  REQUIRE(reduced);
  REQUIRE(reduced->edges.size() == 1);
  CHECK(reduced->edges[0].rows.representatives.size() == 2);
  CHECK(reduced->edges[0].rows.of == std::vector<int>{0, 0, 1});
  CHECK(reduced->nodes[2].strategies == std::vector<int>{0, 1});
  CHECK_FALSE(reduced->reduced({0, 0, 2}));
  problem.nodes[2].costs = {impossible, impossible, impossible};
  CHECK_FALSE(reduce(problem));
}
