// Where time does not end it, a search's answer depends on neither other loads nor earlier runs.

#include <algorithm>
#include <catch2/catch.hpp>

#include "layered_graph.h"
#include "plan_pricing.h"
#include "search/plan_builder.h"
#include "search/search_plan.h"
#include "unit/assignment/load.h"

using namespace autopar;
using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::Solution;
using assignment::SolveOptions;
using assignment::Status;

namespace {

constexpr double long_time = 1e6;

/// So many random layers on a mesh, with less memory than the cheapest plan takes.
search::PlanProblem tight_problem(Random& random, int layers, const std::string& mesh) {
  const graph::Graph graph = LayeredGraph(random).grow(layers, 4);
  const cost::CostModel cost = model_of(mesh);
  search::SearchOptions options = within("fair");
  const search::PlanProblem fair = build_plan_problem(graph, cost, options);
  const Solution found = assignment::solve(fair.problem, {.time_limit_seconds = long_time});
  REQUIRE_FALSE(found.choice.empty());
  const std::int64_t peak = std::ranges::max(usage_over_time(fair.problem, found.choice));
  options.memory = {search::MemoryPolicy::Kind::bytes, peak * 9 / 10};
  return build_plan_problem(graph, cost, options);
}

/// Searches and relaxations for some rounds, until patience ends them.
SolveOptions rounds_of(int threads) {
  SolveOptions options{.time_limit_seconds = long_time,
                       .patience_seconds = 0.1,
                       .small_gap = 0.5,
                       .threads = threads};
  options.parameters.exact.most_nodes_for_labels = 0;
  options.parameters.exact.most_strategies_for_glpk = 0;
  return options;
}

void require_same(const Solution& found, const Solution& other) {
  REQUIRE(found.status == other.status);
  REQUIRE(found.choice == other.choice);
  REQUIRE(found.cost == other.cost);
  REQUIRE(found.lower_bound == other.lower_bound);
}

}  // namespace

TEST_CASE("rounds of searches and relaxations on a busy machine answer as on a calm one") {
  Random random(31);
  int unproven = 0;
  for (int round = 0; round < 4; ++round) {
    const AssignmentProblem problem = tight_problem(random, pick(random, 3, 7), "2x2").problem;
    CAPTURE(round);
    Cost least = assignment::impossible;
    Cost bound = 0;
    for (const int threads : {1, 2}) {
      CAPTURE(threads);
      const SolveOptions options = rounds_of(threads);
      const Solution calm = assignment::solve(problem, options);
      require_same(assignment::solve(problem, options), calm);
      {
        const assignment::Load load(2);
        require_same(assignment::solve(problem, options), calm);
      }
      unproven += calm.status == Status::feasible ? 1 : 0;
      least = std::min(least, calm.cost);
      bound = std::max(bound, calm.lower_bound);
    }
    CHECK(bound <= least);
  }
  CHECK(unproven > 2);
}

TEST_CASE("a plan found on a busy machine is the one found on a calm one; its cost is any's") {
  Random random(32);
  for (int round = 0; round < 4; ++round) {
    const graph::Graph graph = LayeredGraph(random).grow(pick(random, 2, 20), 2);
    const cost::CostModel cost = model_of(round % 2 == 0 ? "2x2" : "4");
    search::SearchOptions options = within("fair");
    options.time_limit_seconds = long_time;
    double seconds = 0;
    for (const int threads : {1, 2}) {
      CAPTURE(round, threads);
      options.threads = threads;
      const search::SolvedPlan calm = search_plan(graph, cost, options);
      const assignment::Load load(2);
      const search::SolvedPlan busy = search_plan(graph, cost, options);
      REQUIRE(busy.choice == calm.choice);
      REQUIRE(busy.report.lower_bound_seconds == calm.report.lower_bound_seconds);
      REQUIRE(calm.report.proven_optimal);
      if (threads > 1) REQUIRE(calm.plan.predicted.cost_seconds == seconds);
      seconds = calm.plan.predicted.cost_seconds;
    }
  }
}
