#include "assignment/local_search/neighbourhood_search.h"

#include <catch2/catch.hpp>

#include "unit/assignment/brute_force.h"
#include "unit/assignment/small_problems.h"

using namespace autopar;
using namespace autopar::assignment;

namespace {

constexpr double most = 1e6;
constexpr double work = 5e6;

void require_valid(const AssignmentProblem& problem, const std::vector<int>& choice) {
  REQUIRE(within_limits(problem, choice));
  REQUIRE(cost_of(problem, choice) < impossible);
}

}  // namespace

TEST_CASE("a neighbourhood search keeps what it starts from, or finds cheaper") {
  std::mt19937 random(101);
  int feasible = 0;
  for (int round = 0; round < 400; ++round) {
    const AssignmentProblem problem = random_compressed_problem(random);
    const std::vector<int> start = random_choice(random, problem);
    const Cost cost = within_limits(problem, start) ? cost_of(problem, start) : impossible;
    CAPTURE(round);
    const ArcCosts costs(problem, 1, most);
    NeighbourhoodSearch search(problem, costs, start, most, 1);
    if (cost < impossible) {
      ++feasible;
      REQUIRE(search.best() == start);
    } else {
      REQUIRE(search.best().empty());
    }
    search.set_prices(random_prices(random, problem.usage_limits.size()));
    for (int k = 0; k < 5; ++k) {
      search.advance(work / 50, {});
      if (search.best().empty()) continue;
      require_valid(problem, search.best());
      REQUIRE(cost_of(problem, search.best()) <= cost);
    }
  }
  CHECK(feasible > 50);
}

TEST_CASE("from over the limits a neighbourhood search finds its way, mostly to the optimum") {
  std::mt19937 random(102);
  int asked = 0;
  int found = 0;
  int optimal = 0;
  for (int round = 0; round < 100; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 4, round % 3);
    const Solution truth = solve_by_brute_force(problem);
    std::vector<int> start = random_choice(random, problem);
    for (int k = 0; k < 20 && within_limits(problem, start); ++k) {
      start = random_choice(random, problem);
    }
    if (truth.status == Status::infeasible || within_limits(problem, start)) continue;
    ++asked;
    CAPTURE(round);
    const ArcCosts costs(problem, 1, most);
    NeighbourhoodSearch search(problem, costs, start, most, 1);
    REQUIRE(search.best().empty());
    search.advance(work, {});
    if (search.best().empty()) continue;
    ++found;
    require_valid(problem, search.best());
    REQUIRE(cost_of(problem, search.best()) >= truth.cost);
    optimal += cost_of(problem, search.best()) == truth.cost ? 1 : 0;
  }
  CHECK(asked > 60);
  CHECK(found > asked * 3 / 4);
  CHECK(optimal > asked / 2);
}

TEST_CASE("a neighbourhood search goes on from another choice and forgets none that is cheaper") {
  std::mt19937 random(103);
  for (int round = 0; round < 60; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 2, 1);
    const ArcCosts costs(problem, 1, most);
    NeighbourhoodSearch search(problem, costs, random_choice(random, problem), most, 1);
    Cost cost = impossible;
    CAPTURE(round);
    for (int k = 0; k < 4; ++k) {
      search.advance(work / 50, {});
      search.restart(random_choice(random, problem));
      if (search.best().empty()) continue;
      require_valid(problem, search.best());
      REQUIRE(cost_of(problem, search.best()) <= cost);
      cost = cost_of(problem, search.best());
    }
  }
}

TEST_CASE("the same seed gives the same search") {
  std::mt19937 random(104);
  int different = 0;
  for (int round = 0; round < 40; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 3, 2);
    const std::vector<int> start = random_choice(random, problem);
    const ArcCosts costs(problem, 1, most);
    const auto found = [&](unsigned seed) {
      NeighbourhoodSearch search(problem, costs, start, most, seed);
      search.advance(4000, {});
      return search.best();
    };
    CAPTURE(round);
    REQUIRE(found(5) == found(5));
    different += found(5) == found(6) ? 0 : 1;
  }
  CHECK(different > 0);
}

TEST_CASE("a neighbourhood search that has no time does nothing") {
  std::mt19937 random(105);
  const AssignmentProblem problem = random_limited_problem(random, 2, 1);
  const std::vector<int> start = random_choice(random, problem);
  const ArcCosts costs(problem, 1, most);
  NeighbourhoodSearch search(problem, costs, start, most, 1);
  const std::vector<int> before = search.best();
  search.advance(1e12, Deadline(0));
  CHECK(search.best() == before);
}
