#include "assignment/repetition/folding.h"

#include <catch2/catch.hpp>
#include <random>

#include "assignment/elimination/elimination.h"
#include "assignment/relaxation/relaxation.h"
#include "unit/assignment/chain_of_layers.h"

using namespace autopar;
using namespace autopar::assignment;

namespace {

using Random = std::mt19937;

Choice random_choice(const AssignmentProblem& problem, Random& random) {
  Choice choice;
  for (const auto& node : problem.nodes)
    choice.push_back(
        std::uniform_int_distribution<int>(0, static_cast<int>(node.costs.size()) - 1)(random));
  return choice;
}

}  // namespace

TEST_CASE("repeated layers are found, and nodes of one kind stand a layer apart") {
  const AssignmentProblem problem = chain_of_layers(40, 1);
  const auto repeated = find_repeated_layers(problem, 12);
  REQUIRE(repeated);
  CHECK(repeated->layers >= 30);
  for (int node = 60; node < 80; ++node) {
    CHECK(repeated->layer[node] != RepeatedLayers::none);
    CHECK(repeated->moved(node, 1) == node + 3);
  }
  CHECK(repeated->layer[0] == RepeatedLayers::none);
  CHECK(repeated->layer[1] == RepeatedLayers::none);
  CHECK_FALSE(find_repeated_layers(chain_of_layers(8, 1), 12));
}

TEST_CASE("a choice of the folded problem is one of the whole, of the same cost and usage") {
  Random random(3);
  for (const int layers : {33, 40, 57}) {
    const AssignmentProblem whole = chain_of_layers(layers, static_cast<unsigned>(layers));
    const auto folding = Folding::make(whole);
    REQUIRE(folding);
    CHECK(folding->problem().nodes.size() < whole.nodes.size() / 2);
    check(folding->problem());
    for (int draw = 0; draw < 20; ++draw) {
      const Choice choice = random_choice(folding->problem(), random);
      const Choice unfolded = folding->unfolded(choice);
      CHECK(cost_of(whole, unfolded) == cost_of(folding->problem(), choice));
      CHECK(usage_over_time(whole, unfolded) == usage_over_time(folding->problem(), choice));
    }
  }
}

TEST_CASE("a relaxation that begins with the folded problem's is near its bound at once") {
  AssignmentProblem whole = chain_of_layers(60, 5);
  const auto folding = Folding::make(whole);
  REQUIRE(folding);
  const Deadline never;
  Relaxation folded(folding->problem(), {}, 0);
  folded.advance(1e9, impossible, never);
  SolverParameters::Relaxation one_sweep;
  one_sweep.first_sweeps = 1;
  one_sweep.sweeps_a_step = 1;
  Relaxation cold(whole, {}, 0, one_sweep);
  Relaxation warm(whole, {}, 0, one_sweep);
  warm.start_from(folded, *folding);
  cold.advance(1, impossible, never);
  warm.advance(1, impossible, never);
  CHECK(warm.bound() > cold.bound());
  CHECK(static_cast<double>(warm.bound()) > 0.98 * static_cast<double>(folded.bound()));
  // Settled, it is there before prices move, and no lower than where it began.
  const Cost before = folded.bound();
  folded.settle(never);
  CHECK(folded.bound() >= before);
  Relaxation settled(whole, {}, 0, one_sweep);
  settled.start_from(folded, *folding);
  settled.settle(never);
  CHECK(static_cast<double>(settled.bound()) > 0.99 * static_cast<double>(folded.bound()));
  // The bound is one: no choice without limits costs less than what elimination finds, and with
  // limits none costs less than what a search finds.
  const Solution solved = solve(whole, {.time_limit_seconds = 20});
  REQUIRE_FALSE(solved.choice.empty());
  CHECK(warm.bound() <= solved.cost);
  CHECK(settled.bound() <= solved.cost);
  whole.usage_limits.clear();
  for (auto& node : whole.nodes) node.first = node.end = 0;
  const auto best = choose_by_elimination(whole);
  const auto unlimited = Folding::make(whole);
  REQUIRE((best && unlimited));
  Relaxation few(unlimited->problem(), {}, 0);
  few.advance(1e8, impossible, never);
  Relaxation free(whole, {}, 0);
  free.start_from(few, *unlimited);
  free.advance(1e8, impossible, never);
  CHECK(free.bound() <= cost_of(whole, *best));
  CHECK(static_cast<double>(free.bound()) > 0.98 * static_cast<double>(cost_of(whole, *best)));
}

TEST_CASE("what is folded first ends at the same optimum") {
  for (const unsigned seed : {1U, 2U, 3U}) {
    const AssignmentProblem problem = chain_of_layers(40, seed);
    SolveOptions options{.time_limit_seconds = 60};
    options.parameters.folded.least_seconds_to_relax = 0;
    const Solution folded = solve(problem, options);
    options.parameters.folded.least_seconds_to_relax = unlimited_seconds;
    const Solution plain = solve(problem, options);
    CHECK(folded.status == Status::optimal);
    CHECK(folded.cost == plain.cost);
    CHECK(folded.lower_bound == plain.lower_bound);
  }
}

TEST_CASE("layers of two kinds are mixed in the proportion that the limit asks for") {
  // A layer costs less the more it uses; changes of kind cost, and the limit is for 13 of 50.
  constexpr int layers = 50;
  constexpr std::int64_t large = 1000;
  AssignmentProblem problem;
  problem.usage_limits = {13 * large};
  const CostTable change{std::vector<Cost>{0, 40, 40, 0}};
  const CostTable within{std::vector<Cost>{0, 900, 900, 0}};
  for (int layer = 0; layer < layers; ++layer) {
    const int a = 2 * layer;
    problem.nodes.push_back({std::vector<Cost>{0, 700}, {large, 0}, 0, 1});
    problem.nodes.push_back({std::vector<Cost>{10, 0}, {0, 0}, 0, 0});
    problem.edges.push_back({a, a + 1, within});
    if (layer > 0) problem.edges.push_back({a - 1, a, change});
  }
  SolveOptions options{.time_limit_seconds = 60};
  options.parameters.folded.least_seconds_to_relax = 0;
  options.parameters.exact.most_nodes_for_labels = 0;
  options.parameters.exact.most_strategies_for_glpk = 0;
  const Solution solution = solve(problem, options);
  // 13 in a row at an end, with one change.
  CHECK(solution.cost == 13 * 10 + 37 * 700 + 40);
}
