#include "assignment/assignment_problem.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "unit/assignment/brute_force.h"

using namespace autopar;
using namespace autopar::assignment;

namespace {

/// Two nodes of two strategies that overlap at time 1.
AssignmentProblem pair_of_nodes() {
  AssignmentProblem problem;
  problem.nodes = {{.costs = {1, 2}, .usages = {5, 3}, .first = 0, .end = 2},
                   {.costs = {10, 20}, .usages = {4, 1}, .first = 1, .end = 3}};
  problem.edges = {{.a = 0, .b = 1, .costs = {100, 200, 300, impossible}}};
  return problem;
}

}  // namespace

TEST_CASE("a cost is the sum over nodes and edges, the first node's strategy choosing the row") {
  const AssignmentProblem problem = pair_of_nodes();
  CHECK(cost_of(problem, {0, 0}) == 111);
  CHECK(cost_of(problem, {0, 1}) == 221);
  CHECK(cost_of(problem, {1, 0}) == 312);
}

TEST_CASE("a choice with an impossible pair or strategy costs `impossible`") {
  AssignmentProblem problem = pair_of_nodes();
  CHECK(cost_of(problem, {1, 1}) == impossible);
  problem.nodes[0].costs[0] = impossible;
  CHECK(cost_of(problem, {0, 0}) == impossible);
}

TEST_CASE("sums of costs saturate instead of wrapping round") {
  AssignmentProblem problem;
  for (int i = 0; i < 40; ++i) {
    problem.nodes.push_back({.costs = {impossible - 1}, .usages = {0}, .first = 0, .end = 0});
  }
  CHECK(cost_of(problem, std::vector<int>(40, 0)) == impossible);
}

TEST_CASE("usage counts from a node's first time up to its end") {
  const AssignmentProblem problem = pair_of_nodes();
  CHECK(usage_over_time(problem, {0, 0}) == std::vector<std::int64_t>{5, 9, 4});
  CHECK(usage_over_time(problem, {1, 1}) == std::vector<std::int64_t>{3, 4, 1});
}

TEST_CASE("limits hold by time; negative ones and times beyond them limit nothing") {
  AssignmentProblem problem = pair_of_nodes();
  CHECK(within_limits(problem, {0, 0}));
  problem.usage_limits = {5, 9};
  CHECK(within_limits(problem, {0, 0}));
  problem.usage_limits = {5, 8};
  CHECK_FALSE(within_limits(problem, {0, 0}));
  CHECK(within_limits(problem, {1, 0}));
  problem.usage_limits = {5, -1, 4, 0, 0};
  CHECK(within_limits(problem, {0, 0}));
}

TEST_CASE("nothing may be within limits that the least usages of possible strategies exceed") {
  AssignmentProblem problem = pair_of_nodes();
  problem.usage_limits = {3, 4, 1};
  CHECK(may_be_within_limits(problem));
  problem.usage_limits = {-1, 3};
  CHECK_FALSE(may_be_within_limits(problem));
  problem.usage_limits = {3};
  problem.nodes[0].costs[1] = impossible;  // it uses 3, the other one 5
  CHECK_FALSE(may_be_within_limits(problem));
}

TEST_CASE("a malformed problem is refused") {
  const AssignmentProblem good = pair_of_nodes();
  CHECK_NOTHROW(check(good));
  const auto broken = [&](auto breaks) {
    AssignmentProblem problem = good;
    breaks(problem);
    return problem;
  };
  CHECK_THROWS_AS(check(broken([](auto& p) { p.nodes[0].costs.clear(); })), InternalError);
  CHECK_THROWS_AS(check(broken([](auto& p) { p.nodes[0].usages.pop_back(); })), InternalError);
  CHECK_THROWS_AS(check(broken([](auto& p) { p.nodes[0].usages[0] = -1; })), InternalError);
  CHECK_THROWS_AS(check(broken([](auto& p) { p.nodes[0].end = -1; })), InternalError);
  CHECK_THROWS_AS(check(broken([](auto& p) { p.edges[0].b = 2; })), InternalError);
  CHECK_THROWS_AS(check(broken([](auto& p) { p.edges[0].b = 0; })), InternalError);
  CHECK_THROWS_AS(check(broken([](auto& p) { p.edges[0].costs.edit().pop_back(); })),
                  InternalError);
  CHECK_THROWS_AS(cost_of(good, {0}), InternalError);
  CHECK_THROWS_AS(cost_of(good, {0, 2}), InternalError);
}

TEST_CASE("brute force finds the cheapest choice within the limits or says that there is none") {
  AssignmentProblem problem = pair_of_nodes();
  CHECK(solve_by_brute_force(problem).choice == std::vector<int>{0, 0});
  problem.usage_limits = {-1, 8};
  const Solution limited = solve_by_brute_force(problem);
  CHECK(limited.status == Status::optimal);
  CHECK(limited.choice == std::vector<int>{0, 1});
  CHECK(limited.cost == 221);
  CHECK(limited.lower_bound == 221);
  problem.usage_limits = {4, 6};
  CHECK(solve_by_brute_force(problem).status == Status::infeasible);
}

TEST_CASE("brute force refuses more than 10^8 choices") {
  AssignmentProblem problem;
  for (int i = 0; i < 27; ++i) {
    problem.nodes.push_back({.costs = {0, 1}, .usages = {0, 0}, .first = 0, .end = 0});
  }
  CHECK_THROWS_AS(solve_by_brute_force(problem), InternalError);
}
