#include "assignment/relaxation/message_passing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "assignment/presolve/presolve.h"
#include "unit/assignment/small_problems.h"

using namespace autopar::assignment;

namespace {

Cost least(const std::vector<std::vector<Cost>>& costs_with) {
  return costs_with.empty() ? 0 : std::ranges::min(costs_with.front());
}

AssignmentProblem without_more_than_trees(AssignmentProblem problem) {
  std::vector<int> tree(problem.nodes.size());
  std::iota(tree.begin(), tree.end(), 0);
  std::erase_if(problem.edges, [&](const auto& edge) {
    const int a = tree[static_cast<std::size_t>(edge.a)];
    const int b = tree[static_cast<std::size_t>(edge.b)];
    std::ranges::replace(tree, a, b);
    return a == b;
  });
  return problem;
}

/// The nodes renumbered, so that they are in `sweep_order`.
AssignmentProblem in_sweep_order(const AssignmentProblem& problem) {
  const std::vector<int> order = sweep_order(problem);
  AssignmentProblem result;
  std::vector<int> rank(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    rank[static_cast<std::size_t>(order[k])] = static_cast<int>(k);
    result.nodes.push_back(problem.nodes[static_cast<std::size_t>(order[k])]);
  }
  for (const auto& edge : problem.edges) {
    result.edges.push_back({rank[static_cast<std::size_t>(edge.a)],
                            rank[static_cast<std::size_t>(edge.b)], edge.costs});
  }
  result.usage_limits = problem.usage_limits;
  return result;
}

}  // namespace

TEST_CASE("prices less the limits' cost bound every choice within the limits") {
  std::mt19937 random(81);
  for (int round = 0; round < 300; ++round) {
    const AssignmentProblem problem = random_compressed_problem(random);
    UsagePrices prices(problem, 16);
    std::vector<double> drawn = random_prices(random, problem.usage_limits.size());
    for (double& price : drawn) price /= 7;  // not in whole numbers
    prices.set(drawn);
    CAPTURE(round);
    REQUIRE(prices.prices() == drawn);
    for (int sample = 0; sample < 20; ++sample) {
      const std::vector<int> choice = random_choice(random, problem);
      double paid = 0;
      double exactly_paid = 0;
      const auto usage = usage_over_time(problem, choice);
      for (std::size_t t = 0; t < drawn.size(); ++t) {
        exactly_paid += drawn[t] * static_cast<double>(usage[t]);
      }
      for (std::size_t i = 0; i < choice.size(); ++i) {
        paid += prices.of(i, static_cast<std::size_t>(choice[i]));
      }
      REQUIRE(paid <= exactly_paid * 16 + 1e-3);
      REQUIRE(paid > exactly_paid * 16 - static_cast<double>(choice.size()) - 1e-3);
      if (within_limits(problem, choice)) REQUIRE(paid <= prices.limits_cost());
    }
  }
}

TEST_CASE("message passing never bounds above the priced optimum, with and without a strategy") {
  std::mt19937 random(82);
  int close = 0;
  int bounded = 0;
  for (int round = 0; round < 500; ++round) {
    AssignmentProblem problem = random_compressed_problem(random);
    if (round % 2 == 0) problem = in_sweep_order(problem);
    const int scale = round % 3 == 0 ? 1 : 16;
    const ArcCosts costs(problem, scale);
    UsagePrices prices(problem, scale);
    MessagePassing messages(costs);
    CAPTURE(round);
    // Messages stay good where prices change.
    for (int change = 0; change < 3; ++change) {
      const auto drawn = random_prices(random, problem.usage_limits.size());
      prices.set(drawn);
      messages.set_prices(prices);
      const auto truth = least_costs_with(priced(problem, drawn, scale));
      double last = -1e300;
      for (int k = 0; k < 12; ++k) {
        messages.sweep();
        const auto bound = messages.bound();
        if (!bound) continue;
        REQUIRE(*bound <= static_cast<double>(least(truth)));
        if (least(truth) < impossible) REQUIRE(*bound >= last);
        last = *bound;
        std::size_t entry = 0;
        const std::vector<double> with = messages.min_marginals();
        for (const auto& of_node : truth) {
          for (const Cost cost : of_node) {
            if (cost < impossible) REQUIRE(with[entry] <= static_cast<double>(cost));
            ++entry;
          }
        }
        REQUIRE(entry == with.size());
      }
      if (least(truth) >= impossible) continue;
      ++bounded;
      close += last >= 0.95 * static_cast<double>(least(truth)) ? 1 : 0;
    }
  }
  CHECK(bounded > 700);
  CHECK(close > bounded * 4 / 5);
}

TEST_CASE("on trees a few sweeps are exact, and the choice is the cheapest") {
  std::mt19937 random(83);
  int compared = 0;
  for (int round = 0; round < 400; ++round) {
    AssignmentProblem problem = without_more_than_trees(random_compressed_problem(random));
    if (round % 2 == 0) problem = in_sweep_order(problem);
    const ArcCosts costs(problem, 16);
    UsagePrices prices(problem, 16);
    const auto drawn = random_prices(random, problem.usage_limits.size());
    prices.set(drawn);
    const AssignmentProblem alone = priced(problem, drawn, 16);
    const auto truth = least_costs_with(alone);
    if (least(truth) >= impossible) continue;
    MessagePassing messages(costs);
    messages.set_prices(prices);
    for (int k = 0; k < 12; ++k) messages.sweep();
    CAPTURE(round);
    // Each edge may have been rounded once.
    REQUIRE(messages.bound());
    REQUIRE(*messages.bound() <= static_cast<double>(least(truth)));
    REQUIRE(*messages.bound() >=
            static_cast<double>(least(truth)) - static_cast<double>(problem.nodes.size()));
    REQUIRE(cost_of(alone, messages.choice()) == least(truth));
    ++compared;
  }
  CHECK(compared > 250);
}

TEST_CASE("strategies without a possible partner neither raise the bound nor spoil it") {
  AssignmentProblem problem;
  for (int i = 0; i < 3; ++i) {
    problem.nodes.push_back({.costs = {0, 10, 20}, .usages = {0, 0, 0}, .first = 0, .end = 0});
  }
  // The first strategy has no partner beyond the first edge, in either direction.
  const Cost x = impossible;
  problem.edges = {{.a = 0, .b = 1, .costs = {x, x, x, x, 1, 2, x, 3, 4}},
                   {.a = 1, .b = 2, .costs = {5, 6, 7, 8, x, 9, 1, 2, 3}}};
  const auto truth = least_costs_with(problem);
  const ArcCosts costs(problem, 1);
  MessagePassing messages(costs);
  for (int k = 0; k < 10; ++k) messages.sweep();
  REQUIRE(messages.bound());
  CHECK(*messages.bound() == static_cast<double>(least(truth)));
  CHECK(cost_of(problem, messages.choice()) == least(truth));
  const std::vector<double> with = messages.min_marginals();
  std::size_t entry = 0;
  for (const auto& of_node : truth) {
    for (const Cost cost : of_node) {
      CAPTURE(entry);
      if (cost < impossible) CHECK(with[entry] <= static_cast<double>(cost));
      ++entry;
    }
  }
}

TEST_CASE("the sweep order has what trees hang on by degree, then the trees, parents first") {
  std::mt19937 random(84);
  int with_cycles = 0;
  for (int round = 0; round < 300; ++round) {
    const AssignmentProblem problem = random_compressed_problem(random);
    const std::vector<int> order = sweep_order(problem);
    const std::size_t count = problem.nodes.size();
    std::vector<std::size_t> rank(count, count);
    REQUIRE(order.size() == count);
    for (std::size_t k = 0; k < count; ++k) rank[static_cast<std::size_t>(order[k])] = k;
    REQUIRE(std::ranges::count(rank, count) == 0);
    // What is left when leaves are taken away for as long as there are any.
    std::vector<char> is_core(count, 1);
    const auto degree = [&](std::size_t i, const auto& counts) {
      return std::ranges::count_if(problem.edges, [&](const auto& edge) {
        const auto a = static_cast<std::size_t>(edge.a);
        const auto b = static_cast<std::size_t>(edge.b);
        return (a == i && counts(b)) || (b == i && counts(a));
      });
    };
    for (std::size_t k = 0; k < count; ++k) {
      for (std::size_t i = 0; i < count; ++i) {
        if (degree(i, [&](std::size_t j) { return is_core[j] != 0; }) <= 1) is_core[i] = 0;
      }
    }
    const auto core = static_cast<std::size_t>(std::ranges::count(is_core, 1));
    with_cycles += core > 0 ? 1 : 0;
    CAPTURE(round, core);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE((rank[i] < core) == (is_core[i] != 0));
      if (rank[i] >= core) {
        REQUIRE(degree(i, [&](std::size_t j) { return rank[j] < rank[i]; }) <= 1);
      } else if (rank[i] > 0) {
        const auto any = [](std::size_t) { return true; };
        REQUIRE(degree(static_cast<std::size_t>(order[rank[i] - 1]), any) >= degree(i, any));
      }
    }
  }
  CHECK(with_cycles > 50);
}
