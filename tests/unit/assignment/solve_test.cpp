#include <catch2/catch.hpp>

#include "assignment/assignment_problem.h"
#include "unit/assignment/brute_force.h"
#include "unit/assignment/load.h"
#include "unit/assignment/small_problems.h"

using namespace autopar::assignment;

namespace {

void require_equal(const AssignmentProblem& problem, const Solution& found, const Solution& truth) {
  REQUIRE(found.status == truth.status);
  REQUIRE(found.cost == truth.cost);
  REQUIRE(found.lower_bound == truth.cost);
  if (truth.status == Status::infeasible) {
    REQUIRE(found.choice.empty());
    return;
  }
  REQUIRE(cost_of(problem, found.choice) == found.cost);
  REQUIRE(within_limits(problem, found.choice));
}

}  // namespace

TEST_CASE("solve equals brute force on random small problems") {
  std::mt19937 random(20250301);
  for (int round = 0; round < 1500; ++round) {
    const AssignmentProblem problem = random_problem(random);
    CAPTURE(round);
    require_equal(problem, solve(problem, {}), solve_by_brute_force(problem));
  }
}

TEST_CASE("branch and bound without GLPK equals brute force") {
  std::mt19937 random(20250302);
  for (int round = 0; round < 1500; ++round) {
    const AssignmentProblem problem = random_problem(random);
    CAPTURE(round);
    require_equal(problem, solve(problem, {.parameters = glpk_up_to(0)}),
                  solve_by_brute_force(problem));
  }
}

TEST_CASE("solve agrees with GLPK on the whole, and is the same each time") {
  std::mt19937 random(61);
  for (int round = 0; round < 150; ++round) {
    AssignmentProblem problem = random_problem(random);
    // Several small ones side by side, joined by the limits alone.
    for (int more = draw(random, 1, 4); more > 0; --more) {
      AssignmentProblem other = random_problem(random);
      const int shift = static_cast<int>(problem.nodes.size());
      for (auto& edge : other.edges) {
        problem.edges.push_back({edge.a + shift, edge.b + shift, std::move(edge.costs)});
      }
      for (auto& node : other.nodes) problem.nodes.push_back(std::move(node));
    }
    for (auto& limit : problem.usage_limits) limit *= 3;
    CAPTURE(round);
    const Solution found = solve(problem, {});
    require_equal(problem, found, solve(problem, {.presolve = false}));
    REQUIRE(solve(problem, {}).choice == found.choice);
  }
}

TEST_CASE("solve equals brute force for any number of threads and any seed") {
  std::mt19937 random(68);
  for (int round = 0; round < 24; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 4, round % 5);
    const Solution truth = solve_by_brute_force(problem);
    for (const int threads : {1, 2, 5}) {
      for (const unsigned seed : {0U, 1U, 99U}) {
        CAPTURE(round, threads, seed);
        const SolveOptions options{.seed = seed, .threads = threads, .parameters = glpk_up_to(0)};
        const Solution found = solve(problem, options);
        require_equal(problem, found, truth);
        REQUIRE(solve(problem, options).choice == found.choice);
      }
    }
  }
}

struct Dense {
  int nodes = 13;
  int strategies = 3;
  int dearest_strategy = 100;
  int dearest_pair = 40;
};

/// All nodes joined, so that tables are large and proofs take their time.
AssignmentProblem random_dense_problem(std::mt19937& random, const Dense& size = {}) {
  AssignmentProblem problem;
  problem.usage_limits = {50 * size.nodes * (size.strategies - 1) / 13};
  for (int i = 0; i < size.nodes; ++i) {
    auto& node = problem.nodes.emplace_back();
    for (int s = 0; s < size.strategies; ++s) {
      node.usages.push_back(10 * s);
      node.costs.push_back(draw(random, 0, size.dearest_strategy) + 20 * (size.strategies - 1 - s));
    }
    node.end = 1;
    for (int j = 0; j < i; ++j) {
      auto& edge = problem.edges.emplace_back();
      edge.a = j;
      edge.b = i;
      for (int k = 0; k < size.strategies * size.strategies; ++k) {
        edge.costs.edit().push_back(draw(random, 0, size.dearest_pair));
      }
    }
  }
  return problem;
}

TEST_CASE("out of patience, solve claims no optimum that it has not proven, nor a larger gap") {
  std::mt19937 random(69);
  int unproven = 0;
  for (int round = 0; round < 300; ++round) {
    const bool is_dense = round % 25 == 0;
    const AssignmentProblem problem =
        is_dense         ? random_dense_problem(random)
        : round % 2 == 0 ? random_problem(random)
                         : random_limited_problem(random, 1 + round % 4, round % 5);
    const Solution truth = is_dense ? solve(problem, {}) : solve_by_brute_force(problem);
    const double small_gap = round % 3 == 0 ? 0.02 : 0.3;
    const Solution found = solve(
        problem,
        {.patience_seconds = 0, .small_gap = small_gap, .threads = 1, .parameters = glpk_up_to(0)});
    CAPTURE(round, small_gap);
    if (truth.status == Status::infeasible) {
      REQUIRE(found.status == Status::infeasible);
      continue;
    }
    REQUIRE(found.lower_bound <= truth.cost);
    REQUIRE(within_limits(problem, found.choice));
    REQUIRE(cost_of(problem, found.choice) == found.cost);
    REQUIRE((found.status == Status::optimal) == (found.lower_bound == found.cost));
    REQUIRE(static_cast<double>(found.cost - found.lower_bound) <=
            small_gap * static_cast<double>(found.cost));
    unproven += found.status == Status::feasible ? 1 : 0;
  }
  CHECK(unproven > 3);
}

TEST_CASE("out of patience, the gaps of parts that nothing joins add up to one small gap") {
  std::mt19937 random(70);
  int unproven = 0;
  for (int round = 0; round < 10; ++round) {
    AssignmentProblem problem;
    Cost optimum = 0;
    bool is_feasible = true;
    for (int part = 0; part < 4; ++part) {
      const bool is_dense = part == 1;
      AssignmentProblem next =
          is_dense ? random_dense_problem(random) : random_limited_problem(random, 2, 2);
      const Solution truth = is_dense ? solve(next, {}) : solve_by_brute_force(next);
      is_feasible = is_feasible && truth.status == Status::optimal;
      optimum += truth.cost;
      const int nodes = static_cast<int>(problem.nodes.size());
      const int times = static_cast<int>(problem.usage_limits.size());
      for (auto& node : next.nodes) {
        if (is_limited(node)) {
          node.first += times;
          node.end += times;
        }
        problem.nodes.push_back(std::move(node));
      }
      for (auto& edge : next.edges) {
        problem.edges.push_back({edge.a + nodes, edge.b + nodes, std::move(edge.costs)});
      }
      for (const std::int64_t limit : next.usage_limits) problem.usage_limits.push_back(limit);
    }
    if (!is_feasible) continue;
    const double small_gap = 0.1;
    const Solution found = solve(
        problem,
        {.patience_seconds = 0, .small_gap = small_gap, .threads = 1, .parameters = glpk_up_to(0)});
    CAPTURE(round);
    REQUIRE(found.lower_bound <= optimum);
    REQUIRE(cost_of(problem, found.choice) == found.cost);
    REQUIRE(found.cost >= optimum);
    REQUIRE(static_cast<double>(found.cost - found.lower_bound) <=
            small_gap * static_cast<double>(found.cost));
    unproven += found.status == Status::feasible ? 1 : 0;
  }
  CHECK(unproven > 0);
}

TEST_CASE("a seed gives the same answer on a busy machine, where patience ends the search too") {
  std::mt19937 random(73);
  // Patience ends the first two between slices; the third also branches and asks GLPK, in slices.
  const std::vector<Dense> sizes{
      {.nodes = 18, .dearest_pair = 10},
      {.nodes = 20},
      {.nodes = 13, .strategies = 6, .dearest_strategy = 200, .dearest_pair = 20}};
  int unproven = 0;
  for (std::size_t round = 0; round < 6; ++round) {
    const bool has_branches = round % 3 == 2;
    const AssignmentProblem problem = random_dense_problem(random, sizes[round % 3]);
    const SolveOptions options{.time_limit_seconds = 1e6,
                               .patience_seconds = 0.05,
                               .small_gap = has_branches ? 0.02 : 0.15,
                               .threads = 1 + static_cast<int>(round % 2),
                               .parameters = glpk_up_to(45)};
    const Solution calm = solve(problem, options);
    const Load load(2);
    const Solution busy = solve(problem, options);
    CAPTURE(round);
    REQUIRE(busy.choice == calm.choice);
    REQUIRE(busy.lower_bound == calm.lower_bound);
    unproven += calm.status == Status::feasible ? 1 : 0;
  }
  CHECK(unproven > 3);
}

TEST_CASE(
    "a limit of work ends a search before it has a proof, and the same way on a busy machine") {
  std::mt19937 random(74);
  for (int round = 0; round < 4; ++round) {
    const AssignmentProblem problem = random_dense_problem(random, {.nodes = 20});
    const SolveOptions options{.time_limit_seconds = 1e6,
                               .work_limit_seconds = 0.05,
                               .threads = 1 + round % 2,
                               .parameters = glpk_up_to(0)};
    const Solution calm = solve(problem, options);
    const Load load(2);
    const Solution busy = solve(problem, options);
    CAPTURE(round);
    CHECK(calm.status == Status::feasible);
    CHECK(busy.choice == calm.choice);
    CHECK(busy.lower_bound == calm.lower_bound);
  }
}

TEST_CASE("without time the status is honest and solve's bound holds") {
  std::mt19937 random(67);
  for (int round = 0; round < 300; ++round) {
    const AssignmentProblem problem = random_problem(random);
    const Solution truth = solve_by_brute_force(problem);
    const Solution found = solve(
        problem, {.time_limit_seconds = 0, .parameters = glpk_up_to(round % 2 == 0 ? 300 : 0)});
    CAPTURE(round);
    REQUIRE(found.lower_bound <= truth.cost);
    REQUIRE((found.status == Status::optimal) ==
            (!found.choice.empty() && found.cost == found.lower_bound));
    if (found.status == Status::infeasible) REQUIRE(truth.status == Status::infeasible);
    if (found.choice.empty()) continue;
    REQUIRE(within_limits(problem, found.choice));
    REQUIRE(cost_of(problem, found.choice) == found.cost);
  }
}

TEST_CASE("starts need not be within the limits; the answer costs no more than one that is") {
  std::mt19937 random(72);
  int within = 0;
  int over = 0;
  for (int round = 0; round < 200; ++round) {
    const AssignmentProblem problem = random_limited_problem(random, 1 + round % 4, round % 4);
    const Solution truth = solve_by_brute_force(problem);
    SolveOptions options{.time_limit_seconds = round % 2 == 0 ? 0.0 : 60.0,
                         .parameters = glpk_up_to(0)};
    Cost cheapest = impossible;
    for (int k = 0; k < 3; ++k) {
      options.starts.push_back(random_choice(random, problem));
      const bool is_within = within_limits(problem, options.starts.back());
      if (is_within) cheapest = std::min(cheapest, cost_of(problem, options.starts.back()));
      (is_within ? within : over) += 1;
    }
    const Solution found = solve(problem, options);
    CAPTURE(round);
    REQUIRE(found.cost <= cheapest);
    REQUIRE(found.cost >= truth.cost);
    REQUIRE(found.lower_bound <= truth.cost);
    if (round % 2 == 1) REQUIRE(found.cost == truth.cost);
    if (!found.choice.empty()) REQUIRE(within_limits(problem, found.choice));
  }
  CHECK(within > 50);
  CHECK(over > 50);
}

TEST_CASE("costs beyond what doubles hold are summed exactly") {
  AssignmentProblem problem;
  for (int i = 0; i < 3; ++i) {
    problem.nodes.push_back(
        {.costs = {-20'000'000'000'000'000 + i, 20'000'000'000'000'000}, .usages = {0, 0}});
    problem.nodes.back().end = 1;
  }
  problem.edges = {{.a = 0, .b = 1, .costs = {impossible, 5, 7, impossible}}};
  require_equal(problem, solve(problem, {}), solve_by_brute_force(problem));
}
