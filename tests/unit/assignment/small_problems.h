#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/presolve/usage_rows.h"
#include "unit/assignment/random_problem.h"

namespace autopar::assignment {

/// Parameters by which GLPK solves components with limits and up to so many strategies.
inline SolverParameters glpk_up_to(int most_strategies) {
  SolverParameters parameters;
  parameters.exact.most_strategies_for_glpk = most_strategies;
  return parameters;
}

/// A random problem with compressed usage that some choice may keep, without parallel edges.
inline AssignmentProblem random_compressed_problem(std::mt19937& random) {
  for (;;) {
    AssignmentProblem problem = random_problem(random);
    if (!compress_usage(problem)) continue;
    auto& edges = problem.edges;
    for (std::size_t k = edges.size(); k-- > 0;) {
      const bool is_parallel = std::any_of(
          edges.begin(), edges.begin() + static_cast<std::ptrdiff_t>(k), [&](const auto& other) {
            return std::minmax(other.a, other.b) == std::minmax(edges[k].a, edges[k].b);
          });
      if (is_parallel) edges.erase(edges.begin() + static_cast<std::ptrdiff_t>(k));
    }
    return problem;
  }
}

/// A tree (and some more edges) of 4 to 8 nodes with 2 or 3 strategies, where less usage costs
/// more, under as many limits, in compressed form, none of which covers another.
inline AssignmentProblem random_limited_problem(std::mt19937& random, int limits, int more_edges,
                                                int largest_cost = 100) {
  for (;;) {
    AssignmentProblem problem;
    const int nodes = draw(random, 4, 8);
    for (int i = 0; i < nodes; ++i) {
      auto& node = problem.nodes.emplace_back();
      const int strategies = draw(random, 2, 3);
      for (int s = 0; s < strategies; ++s) {
        node.usages.push_back(draw(random, 0, 20));
        node.costs.push_back(draw(random, 0, largest_cost) +
                             largest_cost / 20 * (20 - node.usages.back()));
      }
      node.first = draw(random, 0, limits - 1);
      node.end = draw(random, node.first + 1, limits);
    }
    const auto add_edge = [&](int a, int b) {
      for (const auto& edge : problem.edges) {
        if (std::minmax(edge.a, edge.b) == std::minmax(a, b)) return;
      }
      auto& edge = problem.edges.emplace_back();
      edge.a = a;
      edge.b = b;
      const auto pairs = problem.nodes[static_cast<std::size_t>(a)].costs.size() *
                         problem.nodes[static_cast<std::size_t>(b)].costs.size();
      for (std::size_t k = 0; k < pairs; ++k) {
        edge.costs.edit().push_back(draw(random, 0, 14) == 0 ? impossible
                                                             : draw(random, 0, largest_cost));
      }
    };
    for (int i = 1; i < nodes; ++i) add_edge(i, draw(random, 0, i - 1));
    for (int k = 0; k < more_edges; ++k) {
      const int a = draw(random, 1, nodes - 1);
      add_edge(a, draw(random, 0, a - 1));
    }
    std::vector<std::int64_t> least(static_cast<std::size_t>(limits), 0);
    std::vector<std::int64_t> most = least;
    for (const auto& node : problem.nodes) {
      for (int t = node.first; t < node.end; ++t) {
        least[static_cast<std::size_t>(t)] += std::ranges::min(node.usages);
        most[static_cast<std::size_t>(t)] += std::ranges::max(node.usages);
      }
    }
    for (std::size_t t = 0; t < least.size(); ++t) {
      problem.usage_limits.push_back(least[t] + (most[t] - least[t]) * draw(random, 15, 60) / 100);
    }
    if (!compress_usage(problem)) continue;
    if (problem.usage_limits.size() == static_cast<std::size_t>(limits)) return problem;
  }
}

inline std::vector<int> random_choice(std::mt19937& random, const AssignmentProblem& problem) {
  std::vector<int> choice;
  for (const auto& node : problem.nodes) {
    choice.push_back(draw(random, 0, static_cast<int>(node.costs.size()) - 1));
  }
  return choice;
}

/// By node and strategy, the cost of the cheapest choice within the limits that has it, by trying
/// all; `impossible` where there is none.
inline std::vector<std::vector<Cost>> least_costs_with(const AssignmentProblem& problem) {
  std::vector<std::vector<Cost>> least;
  for (const auto& node : problem.nodes) least.emplace_back(node.costs.size(), impossible);
  for_each_choice(problem, [&](const std::vector<int>& choice) {
    const Cost cost = cost_of(problem, choice);
    if (cost >= impossible || !within_limits(problem, choice)) return;
    for (std::size_t i = 0; i < choice.size(); ++i) {
      Cost& known = least[i][static_cast<std::size_t>(choice[i])];
      known = std::min(known, cost);
    }
  });
  return least;
}

/// The problem without limits whose nodes pay for their usage, in multiples of 1 / scale.
inline AssignmentProblem priced(AssignmentProblem problem, const std::vector<double>& prices,
                                int scale) {
  for (auto& node : problem.nodes) {
    double price = 0;
    for (int t = node.first; t < node.end; ++t) price += prices[static_cast<std::size_t>(t)];
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      if (node.costs[s] >= impossible) continue;
      node.costs[s] = node.costs[s] * scale +
                      static_cast<Cost>(price * static_cast<double>(node.usages[s]) * scale);
    }
  }
  for (auto& edge : problem.edges) {
    for (Cost& cost : edge.costs.edit()) {
      if (cost < impossible) cost *= scale;
    }
  }
  problem.usage_limits.clear();
  return problem;
}

/// Prices in sixteenths, so that sums and products of theirs are exact; some are 0.
inline std::vector<double> random_prices(std::mt19937& random, std::size_t times) {
  std::vector<double> prices;
  for (std::size_t t = 0; t < times; ++t) {
    prices.push_back(draw(random, 0, 2) == 0 ? 0 : draw(random, 0, 320) / 16.0);
  }
  return prices;
}

}  // namespace autopar::assignment
