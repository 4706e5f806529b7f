#include "assignment/relaxation/relaxation.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "assignment/presolve/presolve.h"
#include "unit/assignment/brute_force.h"
#include "unit/assignment/small_problems.h"

using namespace autopar::assignment;

namespace {

Cost least(const std::vector<std::vector<Cost>>& costs_with) {
  return costs_with.empty() ? 0 : std::ranges::min(costs_with.front());
}

void require_valid(const AssignmentProblem& problem, Relaxation& relaxation,
                   const std::vector<std::vector<Cost>>& truth) {
  REQUIRE(relaxation.bound() <= least(truth));
  REQUIRE(relaxation.prices().size() == problem.usage_limits.size());
  REQUIRE(std::ranges::all_of(relaxation.prices(), [](double price) { return price >= 0; }));
  if (relaxation.choice().empty()) {
    REQUIRE(relaxation.cost() == impossible);
  } else {
    REQUIRE(within_limits(problem, relaxation.choice()));
    REQUIRE(cost_of(problem, relaxation.choice()) == relaxation.cost());
    REQUIRE(relaxation.cost() < impossible);
  }
}

void require_valid_min_marginals(Relaxation& relaxation,
                                 const std::vector<std::vector<Cost>>& truth) {
  const auto bounds = relaxation.min_marginals();
  REQUIRE(bounds.size() == truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    REQUIRE(bounds[i].size() == truth[i].size());
    for (std::size_t s = 0; s < truth[i].size(); ++s) REQUIRE(bounds[i][s] <= truth[i][s]);
  }
}

}  // namespace

TEST_CASE("the relaxation's bounds hold at every step, on problems of all kinds") {
  std::mt19937 random(91);
  for (int round = 0; round < 400; ++round) {
    const AssignmentProblem problem = random_compressed_problem(random);
    const auto truth = least_costs_with(problem);
    Relaxation relaxation(problem, {}, 0);
    CAPTURE(round);
    for (int k = 0; k < 4; ++k) {
      relaxation.advance(2000, impossible, {});
      require_valid(problem, relaxation, truth);
      require_valid_min_marginals(relaxation, truth);
      relaxation.perturb();
    }
  }
}

TEST_CASE("under limits that bind the relaxation's bound comes close, from any prices") {
  std::mt19937 random(92);
  double bounds = 0;
  double unlimited = 0;
  double optima = 0;
  for (int round = 0; round < 150; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 4, round % 3);
    const auto truth = least_costs_with(problem);
    if (least(truth) >= impossible) continue;
    auto prices = random_prices(random, problem.usage_limits.size());
    if (round % 2 == 0) prices.clear();
    Relaxation relaxation(problem, prices, 0);
    CAPTURE(round);
    relaxation.advance(1e7, impossible, {});
    require_valid(problem, relaxation, truth);
    require_valid_min_marginals(relaxation, truth);
    AssignmentProblem free = problem;
    free.usage_limits.clear();
    bounds += static_cast<double>(relaxation.bound());
    unlimited += static_cast<double>(least(least_costs_with(free)));
    optima += static_cast<double>(least(truth));
  }
  CHECK(optima - bounds < 0.6 * (optima - unlimited));
}

TEST_CASE("the relaxation ends where its bound reaches the goal") {
  std::mt19937 random(93);
  int reached = 0;
  for (int round = 0; round < 60; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 2, 1);
    const auto truth = least_costs_with(problem);
    if (least(truth) >= impossible) continue;
    Relaxation relaxation(problem, {}, 0);
    relaxation.advance(1e7, least(truth) / 2, {});
    CAPTURE(round);
    REQUIRE(relaxation.bound() <= least(truth));
    reached += relaxation.bound() >= least(truth) / 2 && !relaxation.is_stuck() ? 1 : 0;
  }
  CHECK(reached > 40);
}

TEST_CASE("prices that presolve passes on keep the bound valid") {
  std::mt19937 random(94);
  int carried = 0;
  for (int round = 0; round < 800; ++round) {
    const AssignmentProblem problem = random_problem(random);
    const auto truth = least_costs_with(problem);
    const auto presolved = presolve(problem, random_prices(random, problem.usage_limits.size()));
    if (!presolved || presolved->core.nodes.empty()) continue;
    const std::vector<double>& prices = presolved->prices;
    CAPTURE(round);
    REQUIRE(prices.size() == presolved->core.usage_limits.size());
    Relaxation relaxation(presolved->core, prices, 0);
    REQUIRE(relaxation.prices() == prices);
    relaxation.advance(2000, impossible, {});
    REQUIRE(relaxation.bound() + presolved->constant <= least(truth));
    carried += prices.empty() ? 0 : 1;
  }
  CHECK(carried > 30);
}

TEST_CASE("a thrifty choice is within the limits, is mostly found, and changes no bound") {
  std::mt19937 random(91);
  SolverParameters::Relaxation parameters;
  parameters.many_limits = 1;
  int asked = 0;
  int found = 0;
  for (int round = 0; round < 60; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 4, round % 3);
    if (problem.usage_limits.empty()) continue;
    if (solve_by_brute_force(problem).status == Status::infeasible) continue;
    Relaxation thrifty(problem, {}, 0, parameters);
    Relaxation other(problem, {}, 0, parameters);
    const Choice choice = thrifty.thrifty_choice({});
    CAPTURE(round);
    ++asked;
    if (!choice.empty()) {
      ++found;
      REQUIRE(within_limits(problem, choice));
      REQUIRE(cost_of(problem, choice) < impossible);
    }
    thrifty.advance(1e4, impossible, {});
    other.advance(1e4, impossible, {});
    REQUIRE(thrifty.bound() == other.bound());
    REQUIRE(thrifty.prices() == other.prices());
  }
  CAPTURE(found, asked);
  REQUIRE(asked > 20);
  REQUIRE(found > asked * 3 / 4);
}
