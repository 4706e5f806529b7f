#pragma once

#include <random>
#include <utility>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

inline int draw(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution(low, high)(random);
}

/// Calls visit(choice) for every choice, the last node's strategy changing fastest.
template <typename Visit>
void for_each_choice(const AssignmentProblem& problem, const Visit& visit) {
  std::vector<int> choice(problem.nodes.size(), 0);
  for (std::size_t k = choice.size() + 1; k > 0;) {
    visit(std::as_const(choice));
    for (k = choice.size(); k > 0; --k) {
      if (++choice[k - 1] < static_cast<int>(problem.nodes[k - 1].costs.size())) break;
      choice[k - 1] = 0;
    }
  }
}

/// A small problem: a random tree and some more edges (parallel ones too), 1 to 4 strategies, ties,
/// zeros and impossible entries, usage intervals, limits that differ by time or are absent. Some
/// have no possible choice.
inline AssignmentProblem random_problem(std::mt19937& random) {
  AssignmentProblem problem;
  const int nodes = draw(random, 1, 8);
  const int horizon = draw(random, 1, 6);
  const int largest_cost = draw(random, 0, 2) == 0 ? 2 : 100;  // many ties or few
  const int impossible_percent = draw(random, 0, 3) == 0 ? 35 : 8;
  const auto cost = [&]() -> Cost {
    if (draw(random, 1, 100) <= impossible_percent) return impossible;
    return draw(random, 0, 2) == 0 ? 0 : draw(random, 0, largest_cost);
  };
  for (int i = 0; i < nodes; ++i) {
    auto& node = problem.nodes.emplace_back();
    const int strategies = draw(random, 0, 5) == 0 ? 1 : draw(random, 2, 4);
    for (int s = 0; s < strategies; ++s) {
      node.costs.push_back(draw(random, 0, 19) == 0 ? impossible : draw(random, 0, largest_cost));
      node.usages.push_back(draw(random, 0, 9));
    }
    node.first = draw(random, 0, horizon);
    node.end = draw(random, node.first, horizon);
  }
  const auto add_edge = [&](int a, int b) {
    auto& edge = problem.edges.emplace_back();
    edge.a = a;
    edge.b = b;
    const std::size_t pairs = problem.nodes[static_cast<std::size_t>(a)].costs.size() *
                              problem.nodes[static_cast<std::size_t>(b)].costs.size();
    for (std::size_t k = 0; k < pairs; ++k) edge.costs.edit().push_back(cost());
  };
  for (int i = 1; i < nodes; ++i) {
    const int parent = draw(random, 0, i - 1);
    draw(random, 0, 1) == 0 ? add_edge(parent, i) : add_edge(i, parent);
  }
  for (int more = nodes < 3 ? 0 : draw(random, 0, 5); more > 0; --more) {
    const int a = draw(random, 0, nodes - 1);
    const int b = draw(random, 0, nodes - 1);
    if (a != b) add_edge(a, b);
  }
  for (int t = draw(random, 0, horizon + 1); t > 0; --t) {
    problem.usage_limits.push_back(draw(random, 0, 3) == 0 ? -1 : draw(random, 2, 4 + 4 * nodes));
  }
  return problem;
}

}  // namespace autopar::assignment
