#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "assignment/phases.h"
#include "assignment/presolve/usage_rows.h"
#include "unit/assignment/chain_of_layers.h"

using namespace autopar::assignment;

namespace {

/// By what the next layers and the limit see of the layers so far (the strategies of the last
/// layer's first and last node, and usage), the least cost. It shares no code with the solver.
using States = std::map<std::array<std::int64_t, 3>, Cost>;

/// The cost of a pair, whichever way the edge goes.
Cost cost_between(const AssignmentProblem& problem, int a, int b, int s, int t) {
  for (const auto& edge : problem.edges) {
    if (edge.a == a && edge.b == b)
      return edge.costs[static_cast<std::size_t>(s) * problem.nodes[b].costs.size() +
                        static_cast<std::size_t>(t)];
  }
  return 0;
}

/// The optimum of a chain_of_layers, by dynamic programming over layers and usage for each strategy
/// of the node that all layers share.
Cost optimum_of(const AssignmentProblem& problem, int layers) {
  const auto node_cost = [&](int i, int s) { return problem.nodes[i].costs[s]; };
  const auto usage = [&](int i, int s) { return problem.nodes[i].usages[s]; };
  const auto count = [&](int i) { return static_cast<int>(problem.nodes[i].costs.size()); };
  constexpr int hub = 0;
  constexpr int first = 2;
  const int last = first + 3 * layers;
  Cost best = impossible;
  for (int h = 0; h < count(hub); ++h) {
    States states;  // no layer yet: the node before is the last one of a layer
    for (int s = 0; s < count(1); ++s) states[{0, s, 0}] = node_cost(hub, h) + node_cost(1, s);
    for (int layer = 0; layer < layers; ++layer) {
      const int a = first + 3 * layer;
      const int before = layer == 0 ? 1 : a - 1;
      States next;
      for (const auto& [state, cost] : states) {
        for (int s = 0; s < count(a); ++s) {
          Cost so_far = cost + node_cost(a, s) +
                        cost_between(problem, before, a, static_cast<int>(state[1]), s);
          if (layer > 0) so_far += cost_between(problem, a - 3, a, static_cast<int>(state[0]), s);
          for (int t = 0; t < count(a + 1); ++t) {
            for (int u = 0; u < count(a + 2); ++u) {
              const std::int64_t used = state[2] + usage(a, s) + usage(a + 1, t) + usage(a + 2, u);
              if (used > problem.usage_limits.front()) continue;
              const Cost sum = so_far + node_cost(a + 1, t) + node_cost(a + 2, u) +
                               cost_between(problem, a, a + 1, s, t) +
                               cost_between(problem, a + 1, a + 2, t, u) +
                               cost_between(problem, hub, a + 2, h, u);
              const auto [known, is_new] = next.try_emplace({s, u, used}, sum);
              if (!is_new) known->second = std::min(known->second, sum);
            }
          }
        }
      }
      states = std::move(next);
    }
    for (const auto& [state, cost] : states)
      for (int s = 0; s < count(last); ++s)
        best = std::min(best,
                        cost + node_cost(last, s) +
                            cost_between(problem, last - 1, last, static_cast<int>(state[1]), s));
  }
  return best;
}

}  // namespace

TEST_CASE("elimination at prices bounds a chain of layers tightly, and mixes layers of two kinds") {
  int near = 0;
  constexpr int seeds = 12;
  const bool is_relaxed = GENERATE(true, false);  // else it finds the price by itself
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed, is_relaxed);
    constexpr int layers = 24;
    AssignmentProblem problem = chain_of_layers(layers, seed);
    problem.usage_limits = {7 * layers};
    const Cost optimum = optimum_of(problem, layers);
    REQUIRE(optimum < impossible);
    REQUIRE(compress_usage(problem));
    const SolveOptions options;
    WorkClock clock;
    SolveContext context{options, clock, 2};
    const Subproblem component{.problem = problem, .deadline = Deadline(1e9, clock)};
    Portfolio portfolio(component, 2, 1);
    const Deadline some_work = component.deadline.within_work(0.01);
    if (is_relaxed) portfolio.relaxation().advance(1e7, impossible, some_work);
    const auto chain = find_chain(problem, component.deadline, options.parameters);
    REQUIRE(chain);
    CHECK(is_price_soon_found(*chain, component, options.parameters));
    eliminate_at_prices(*chain, portfolio, context);
    CHECK(portfolio.relaxation().prices().front() > 0);
    CHECK(clock.seconds > 0);
    CHECK(portfolio.bound() <= optimum);
    CHECK(portfolio.cost() >= optimum);
    CHECK(static_cast<double>(portfolio.bound()) > 0.95 * static_cast<double>(optimum));
    near += static_cast<double>(portfolio.cost()) < 1.02 * static_cast<double>(optimum) ? 1 : 0;
    Subproblem priced = component;
    priced.prices = portfolio.relaxation().prices();
    CHECK_FALSE(is_price_soon_found(*chain, priced, options.parameters));
    priced.prices = {};
    priced.deadline = component.deadline.within_work(1e-9);
    CHECK_FALSE(is_price_soon_found(*chain, priced, options.parameters));
    if (!portfolio.choice().empty()) CHECK(within_limits(problem, portfolio.choice()));
  }
  CHECK(near >= seeds - 2);
}

TEST_CASE(
    "elimination at prices solves a chain without limits; large tables and few layers are none") {
  AssignmentProblem problem = chain_of_layers(24, 3);
  problem.usage_limits = {1'000'000};
  const Cost optimum = optimum_of(problem, 24);
  REQUIRE(compress_usage(problem));
  REQUIRE(problem.usage_limits.empty());
  const SolveOptions options;
  WorkClock clock;
  SolveContext context{options, clock, 1};
  const Subproblem component{.problem = problem, .deadline = Deadline(1e9, clock)};
  Portfolio portfolio(component, 1, 1);
  const auto chain = find_chain(problem, component.deadline, options.parameters);
  REQUIRE(chain);
  eliminate_at_prices(*chain, portfolio, context);
  CHECK(portfolio.cost() == optimum);
  CHECK(portfolio.bound() <= optimum);
  CHECK(static_cast<double>(portfolio.bound()) > 0.99 * static_cast<double>(optimum));

  SolverParameters small_tables;
  small_tables.sides.most_cells = 10;
  CHECK(!find_chain(problem, component.deadline, small_tables));
  CHECK(!find_chain(problem, component.deadline.within_work(1e-9), options.parameters));
  SolverParameters many_layers;
  many_layers.sides.least_layers = 25;
  CHECK(!find_chain(problem, component.deadline, many_layers));
}
