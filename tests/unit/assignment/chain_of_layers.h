#pragma once

#include <random>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// A chain of equal layers of three nodes each, the first of which reads the first and the last
/// node of the layer before, the last of which a node that all layers share; with a node before and
/// one behind.
inline AssignmentProblem chain_of_layers(int layers, unsigned seed) {
  constexpr int strategies = 3;
  std::mt19937 random(seed);
  const auto table = [&](std::size_t cells) {
    std::vector<Cost> costs;
    for (std::size_t k = 0; k < cells; ++k)
      costs.push_back(std::uniform_int_distribution<Cost>(0, 99)(random));
    return costs;
  };
  const CostTable first = table(strategies * strategies);
  const CostTable inner = table(strategies * strategies);
  const CostTable other = table(strategies * strategies);
  const CostTable onward = table(strategies * strategies);
  const CostTable skip = table(strategies * strategies);
  const CostTable shared = table(strategies * strategies);
  std::vector<AssignmentProblem::Node> of_layer;
  for (int k = 0; k < 3; ++k)
    of_layer.push_back({table(strategies), {7 * (k + 1), 2 * (k + 1), k + 1}, 0, 1});
  AssignmentProblem problem;
  problem.usage_limits = {15 * layers};
  const auto add_end = [&] {
    problem.nodes.push_back({table(strategies), std::vector<std::int64_t>(strategies, 0), 0, 0});
    return static_cast<int>(problem.nodes.size()) - 1;
  };
  const int hub = add_end();
  int before = add_end();
  for (int layer = 0; layer < layers; ++layer) {
    const auto a = static_cast<int>(problem.nodes.size());
    problem.nodes.insert(problem.nodes.end(), of_layer.begin(), of_layer.end());
    problem.edges.push_back({before, a, layer == 0 ? first : onward});
    if (layer > 0) problem.edges.push_back({a - 3, a, skip});
    problem.edges.push_back({a, a + 1, inner});
    problem.edges.push_back({a + 1, a + 2, other});
    problem.edges.push_back({hub, a + 2, shared});
    before = a + 2;
  }
  problem.edges.push_back({before, add_end(), first});
  return problem;
}

}  // namespace autopar::assignment
