#include "assignment/presolve/presolve.h"

#include <catch2/catch.hpp>
#include <set>

#include "assignment/elimination/elimination.h"
#include "assignment/elimination/held_elimination.h"
#include "assignment/presolve/usage_rows.h"
#include "unit/assignment/brute_force.h"
#include "unit/assignment/random_problem.h"

using namespace autopar::assignment;

namespace {

AssignmentProblem without_limits(AssignmentProblem problem) {
  problem.usage_limits.clear();
  return problem;
}

}  // namespace

TEST_CASE("compressing usage keeps which choices are within the limits") {
  std::mt19937 random(31);
  int shorter = 0;
  for (int round = 0; round < 400; ++round) {
    const AssignmentProblem problem = random_problem(random);
    AssignmentProblem compressed = problem;
    const bool is_feasible = compress_usage(compressed);
    shorter += compressed.usage_limits.size() < problem.usage_limits.size() ? 1 : 0;
    CAPTURE(round);
    for (int sample = 0; sample < 50; ++sample) {
      std::vector<int> choice;
      for (const auto& node : problem.nodes) {
        choice.push_back(draw(random, 0, static_cast<int>(node.costs.size()) - 1));
      }
      const bool is_within = within_limits(problem, choice);
      REQUIRE(is_within == (is_feasible && within_limits(compressed, choice)));
    }
  }
  CHECK(shorter > 200);
}

TEST_CASE("times that another one covers are dropped, and what every choice uses") {
  AssignmentProblem problem;
  problem.nodes = {{.costs = {0, 0}, .usages = {5, 7}, .first = 0, .end = 4},
                   {.costs = {0, 0}, .usages = {1, 9}, .first = 1, .end = 3},
                   {.costs = {0, 0}, .usages = {3, 3}, .first = 2, .end = 4}};
  problem.usage_limits = {10, 12, 12, 12, 2};
  REQUIRE(compress_usage(problem));
  // Times 1 and 2 have both nodes that vary; at 2 the third takes 3 more off the limit.
  CHECK(problem.usage_limits == std::vector<std::int64_t>{3});
  CHECK(problem.nodes[0].usages == std::vector<std::int64_t>{0, 2});
  CHECK(problem.nodes[1].usages == std::vector<std::int64_t>{0, 8});
  CHECK_FALSE(is_limited(problem.nodes[2]));
  problem.usage_limits = {-1};
  REQUIRE(compress_usage(problem));
  CHECK(problem.usage_limits.empty());
}

TEST_CASE("the optimum of the presolved core is the whole problem's") {
  std::mt19937 random(41);
  std::size_t nodes = 0;
  std::size_t nodes_left = 0;
  for (int round = 0; round < 1000; ++round) {
    AssignmentProblem problem = random_problem(random);
    if (round % 3 == 0) problem = without_limits(problem);
    const Solution truth = solve_by_brute_force(problem);
    const auto presolved = presolve(problem);
    CAPTURE(round);
    if (!presolved) {
      REQUIRE(truth.status == Status::infeasible);
      continue;
    }
    REQUIRE_NOTHROW(check(presolved->core));
    nodes += problem.nodes.size();
    nodes_left += presolved->core.nodes.size();
    const Solution core = solve_by_brute_force(presolved->core);
    REQUIRE(core.status == truth.status);
    if (truth.status == Status::infeasible) continue;
    REQUIRE(core.cost + static_cast<Cost>(presolved->constant) == truth.cost);
    const std::vector<int> choice = presolved->original(core.choice);
    REQUIRE(cost_of(problem, choice) == truth.cost);
    REQUIRE(within_limits(problem, choice));
    REQUIRE(presolved->reduced(choice) == core.choice);
  }
  CHECK(nodes_left < nodes / 3);
}

TEST_CASE("a tree without limits is presolved to nothing") {
  std::mt19937 random(43);
  AssignmentProblem problem;
  for (int i = 0; i < 2000; ++i) {
    problem.nodes.push_back({.costs = {}, .usages = {0, 0, 0}, .first = 0, .end = 0});
    for (int s = 0; s < 3; ++s) problem.nodes.back().costs.push_back(draw(random, 0, 50));
    if (i == 0) continue;
    problem.edges.push_back({.a = draw(random, 0, i - 1), .b = i, .costs = {}});
    for (int k = 0; k < 9; ++k) problem.edges.back().costs.edit().push_back(draw(random, 0, 50));
  }
  const auto presolved = presolve(problem);
  REQUIRE(presolved);
  CHECK(presolved->core.nodes.empty());
  CHECK(cost_of(problem, presolved->original({})) == presolved->constant);
}

TEST_CASE("elimination equals brute force, and declines tables that are too large") {
  std::mt19937 random(47);
  int different = 0;
  for (int round = 0; round < 500; ++round) {
    const AssignmentProblem problem = without_limits(random_problem(random));
    const Solution truth = solve_by_brute_force(problem);
    std::set<double> cells_by_order;
    for (const EliminationOrder order : elimination_orders) {
      double cells = 0;
      const auto elimination = Elimination::make(problem, {.order = order});
      const auto choice = elimination->choose(problem, {}, cells);
      CAPTURE(round, static_cast<int>(order));
      CHECK(elimination->cells(problem) == cells);
      REQUIRE(choice.has_value() == (truth.status == Status::optimal));
      if (choice) REQUIRE(cost_of(problem, *choice) == truth.cost);
      cells_by_order.insert(cells);
    }
    different += cells_by_order.size() > 1 ? 1 : 0;
    const auto best = HeldElimination::make(problem, {});
    double cells = 0;
    REQUIRE(best);
    best->relaxed(problem, {}, cells);
    CHECK(cells == *cells_by_order.begin());
  }
  CHECK(different > 20);
  AssignmentProblem clique;
  for (int i = 0; i < 8; ++i) {
    clique.nodes.push_back({.costs = {0, 1, 2}, .usages = {0, 0, 0}, .first = 0, .end = 0});
    for (int j = 0; j < i; ++j) {
      clique.edges.push_back({.a = j, .b = i, .costs = {9, 0, 0, 0, 9, 0, 0, 0, 9}});
    }
  }
  CHECK_FALSE(choose_by_elimination(clique, {.most_cells_of_a_table = 6560}));
  CHECK_FALSE(choose_by_elimination(clique, {.deadline = Deadline(0)}));
  CHECK(choose_by_elimination({}, {.deadline = Deadline(0)}));  // nothing takes no time
  CHECK(choose_by_elimination(clique, {.most_cells_of_a_table = 6561}));
}

TEST_CASE("elimination adds up the components of a problem, and counts what it looks at") {
  std::mt19937 random(48);
  for (int round = 0; round < 100; ++round) {
    AssignmentProblem both = without_limits(random_problem(random));
    const AssignmentProblem other = without_limits(random_problem(random));
    const auto first = choose_by_elimination(both);
    double cells = 0;
    const auto elimination = Elimination::make(other, {});
    const auto second = elimination->choose(other, {}, cells);
    CHECK(elimination->cells(other) == cells);
    CHECK_FALSE(Elimination::make(other, {.most_cells = cells / 2}));
    if (!first || !second) continue;
    const Cost expected = cost_of(both, *first) + cost_of(other, *second);
    const auto begin = static_cast<int>(both.nodes.size());
    both.nodes.insert(both.nodes.end(), other.nodes.begin(), other.nodes.end());
    for (const auto& edge : other.edges)
      both.edges.push_back({edge.a + begin, edge.b + begin, edge.costs});
    const auto choice = choose_by_elimination(both);
    REQUIRE(choice);
    CHECK(cost_of(both, *choice) == expected);
  }
}

TEST_CASE("components share neither an edge nor a time with a limit") {
  std::mt19937 random(53);
  for (int round = 0; round < 200; ++round) {
    AssignmentProblem problem = random_problem(random);
    if (!compress_usage(problem)) continue;
    const auto parts = components(problem);
    std::vector<int> part_of(problem.nodes.size(), -1);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      for (const int i : parts[p]) part_of[static_cast<std::size_t>(i)] = static_cast<int>(p);
    }
    CAPTURE(round);
    for (const auto& edge : problem.edges) {
      REQUIRE(part_of[static_cast<std::size_t>(edge.a)] ==
              part_of[static_cast<std::size_t>(edge.b)]);
    }
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      REQUIRE(part_of[i] >= 0);
      for (std::size_t j = 0; j < i; ++j) {
        const auto& a = problem.nodes[i];
        const auto& b = problem.nodes[j];
        if (std::max(a.first, b.first) < std::min(a.end, b.end)) REQUIRE(part_of[i] == part_of[j]);
      }
    }
  }
}

TEST_CASE("presolve counts the sums that eliminations compare as work") {
  AssignmentProblem problem;  // a path of three nodes without limits
  for (int i = 0; i < 3; ++i)
    problem.nodes.push_back({.costs = {3, 1, 2}, .usages = {0, 0, 0}, .first = 0, .end = 0});
  const std::vector<Cost> costs = {0, 5, 9, 7, 0, 4, 2, 8, 0};
  problem.edges = {{.a = 0, .b = 1, .costs = costs}, {.a = 1, .b = 2, .costs = costs}};
  WorkClock clock;
  SolverParameters::Presolve parameters;
  parameters.most_comparisons = 0;  // dominated strategies stay
  REQUIRE(presolve(problem, {}, parameters, Deadline(unlimited_seconds, clock)));
  CHECK(clock.seconds >= 9 / parameters.sums_a_second);
}
