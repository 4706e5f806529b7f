#include "assignment/repetition/mixed_layers.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "assignment/elimination/elimination.h"
#include "unit/assignment/chain_of_layers.h"

using namespace autopar::assignment;

namespace {

/// The cheapest choice where a unit of usage costs so much, in place of limits.
Choice cheapest_at(const AssignmentProblem& problem, Cost price) {
  AssignmentProblem priced = problem;
  for (auto& node : priced.nodes)
    for (std::size_t s = 0; s < node.costs.size(); ++s) node.costs[s] += price * node.usages[s];
  priced.usage_limits.clear();
  return choose_by_elimination(priced).value();
}

std::int64_t usage_of(const AssignmentProblem& problem, const Choice& choice) {
  return usage_over_time(problem, choice).front();
}

}  // namespace

TEST_CASE("layers of a choice beyond the limit and of one within it are mixed up to the limit") {
  constexpr int layers = 24;
  constexpr int seeds = 12;
  int near = 0;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    AssignmentProblem problem = chain_of_layers(layers, seed);
    const Choice within = cheapest_at(problem, 1000);
    const Choice beyond = cheapest_at(problem, 0);
    problem.usage_limits = {std::midpoint(usage_of(problem, within), usage_of(problem, beyond))};
    REQUIRE(usage_of(problem, within) < problem.usage_limits.front());
    REQUIRE(usage_of(problem, beyond) > problem.usage_limits.front());
    const auto repeated = find_repeated_layers(problem, 4);
    REQUIRE(repeated);
    const SolveOptions options;
    WorkClock clock;
    SolveContext context{options, clock, 1};
    const Subproblem whole{.problem = problem, .deadline = Deadline(1e9, clock)};
    const Incumbent mixed = mix_layers(whole, *repeated, within, beyond, context);
    REQUIRE(!mixed.choice.empty());
    CHECK(within_limits(problem, mixed.choice));
    CHECK(mixed.cost == cost_of(problem, mixed.choice));
    const Cost of_within = cost_of(problem, within);
    const Cost of_beyond = cost_of(problem, beyond);
    CHECK(mixed.cost < of_within);
    // Half of the layers are of either kind, but for some at the cut.
    near += mixed.cost - of_beyond <= (of_within - of_beyond) * (layers / 2 + 3) / layers ? 1 : 0;
  }
  CHECK(near >= seeds - 2);  // layers of one choice need not all be alike
}
