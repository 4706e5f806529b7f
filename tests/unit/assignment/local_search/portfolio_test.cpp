#include "assignment/local_search/portfolio.h"

#include <catch2/catch.hpp>

#include "unit/assignment/brute_force.h"
#include "unit/assignment/small_problems.h"

using namespace autopar;
using namespace autopar::assignment;

TEST_CASE("a portfolio's bound and choice hold, and mostly meet, with one thread and with three") {
  std::mt19937 random(121);
  for (const int threads : {1, 3}) {
    int asked = 0;
    int optimal = 0;
    int proven = 0;
    for (int round = 0; round < 40; ++round) {
      AssignmentProblem problem = random_limited_problem(random, 1 + round % 4, round % 3);
      if (round % 3 == 0) {
        problem.usage_limits.clear();
        compress_usage(problem);
      }
      const Solution truth = solve_by_brute_force(problem);
      if (truth.status == Status::infeasible) continue;
      const Subproblem component{.problem = problem};
      Portfolio portfolio(component, threads, 1);
      CAPTURE(round, threads);
      for (int k = 0; k < 2; ++k) {
        portfolio.run({}, true);
        REQUIRE(portfolio.bound() <= truth.cost);
        REQUIRE(portfolio.goal() == portfolio.cost());
        if (!portfolio.choice().empty()) {
          REQUIRE(within_limits(problem, portfolio.choice()));
          REQUIRE(cost_of(problem, portfolio.choice()) == portfolio.cost());
        }
        portfolio.perturb();
      }
      ++asked;
      optimal += portfolio.cost() == truth.cost ? 1 : 0;
      proven += portfolio.bound() == portfolio.cost() ? 1 : 0;
      REQUIRE(portfolio.is_done({}) == (portfolio.bound() == portfolio.cost()));
    }
    CAPTURE(threads);
    CHECK(asked > 25);
    CHECK(optimal > asked * 3 / 4);
    CHECK(proven > 10);
  }
}

TEST_CASE("the same seed and threads give a portfolio the same answer") {
  std::mt19937 random(122);
  for (int round = 0; round < 12; ++round) {
    const Subproblem component{.problem = random_limited_problem(random, 3, 2)};
    CAPTURE(round);
    for (const int threads : {1, 2, 4}) {
      Portfolio one(component, threads, 7);
      Portfolio other(component, threads, 7);
      one.run({}, true);
      other.run({}, true);
      REQUIRE(one.choice() == other.choice());
      REQUIRE(one.bound() == other.bound());
      REQUIRE(one.relaxation().prices() == other.relaxation().prices());
    }
  }
}

TEST_CASE("a portfolio takes over what is cheaper and within the limits, and bounds that rise") {
  std::mt19937 random(123);
  int taken = 0;
  for (int round = 0; round < 60; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 2, 1);
    const Solution truth = solve_by_brute_force(problem);
    if (truth.status == Status::infeasible) continue;
    const Subproblem component{.problem = problem};
    Portfolio portfolio(component, 1, 1);
    CAPTURE(round);
    Cost cost = impossible;
    for (int k = 0; k < 20; ++k) {
      const std::vector<int> choice = random_choice(random, problem);
      portfolio.offer(choice);
      if (within_limits(problem, choice)) cost = std::min(cost, cost_of(problem, choice));
      REQUIRE(portfolio.cost() == cost);
      REQUIRE(portfolio.choice().empty() == (cost == impossible));
    }
    taken += cost < impossible ? 1 : 0;
    portfolio.offer(truth.choice);
    REQUIRE_FALSE(portfolio.is_done({}));
    portfolio.raise_bound(truth.cost - 1);
    portfolio.raise_bound(0);
    REQUIRE(portfolio.bound() == truth.cost - 1);
    portfolio.raise_bound(truth.cost);
    REQUIRE(portfolio.is_done({}));
  }
  CHECK(taken > 20);
}

TEST_CASE("a gap is small enough only when patience has ended, and by the whole cost") {
  std::mt19937 random(124);
  AssignmentProblem problem = random_limited_problem(random, 2, 1);
  while (solve_by_brute_force(problem).status == Status::infeasible) {
    problem = random_limited_problem(random, 2, 1);
  }
  const Solution truth = solve_by_brute_force(problem);
  const Subproblem component{.problem = problem};
  Portfolio portfolio(component, 1, 1);
  const Patience over{.end = Deadline(0), .small_gap = 0.1};
  CHECK_FALSE(portfolio.is_done({.end = Deadline(0), .small_gap = 1e9}));  // there is no choice
  portfolio.offer(truth.choice);
  portfolio.raise_bound(truth.cost * 8 / 10);
  CHECK_FALSE(portfolio.is_done(over));
  CHECK_FALSE(portfolio.is_done({.end = {}, .small_gap = 0.5}));
  CHECK(portfolio.is_done({.end = Deadline(0), .small_gap = 0.5}));
  CHECK(portfolio.is_done({.end = Deadline(0), .small_gap = 0.1, .cost_elsewhere = 1e6}));
  portfolio.raise_bound(truth.cost * 95 / 100);
  CHECK(portfolio.is_done(over));
}

TEST_CASE("a thrifty choice answers where nothing better was found, and guides no search") {
  std::mt19937 random(123);
  SolverParameters parameters;
  parameters.relaxation.many_limits = 1;
  int found = 0;
  for (int round = 0; round < 20; ++round) {
    const Subproblem component{.problem = random_limited_problem(random, 3, 2)};
    Portfolio portfolio(component, 1, 1, parameters);
    portfolio.begin_thriftily();
    CAPTURE(round);
    REQUIRE(portfolio.choice().empty());
    const Incumbent first = portfolio.incumbent();
    if (first.choice.empty()) continue;
    ++found;
    REQUIRE(within_limits(component.problem, first.choice));
    REQUIRE(cost_of(component.problem, first.choice) == first.cost);
    portfolio.run({}, true);
    REQUIRE(portfolio.incumbent().cost == portfolio.cost());
  }
  REQUIRE(found > 5);
}
