#include "search/problem_parts.h"

#include <algorithm>
#include <set>
#include <utility>

namespace autopar::search {

using assignment::AssignmentProblem;
using assignment::Cost;

int add_node(AssignmentProblem& problem, int first, int end) {
  AssignmentProblem::Node node;
  node.first = first;
  node.end = end;
  problem.nodes.push_back(std::move(node));
  return static_cast<int>(problem.nodes.size()) - 1;
}

void add_strategy(AssignmentProblem& problem, int node, Cost cost, std::int64_t usage) {
  AssignmentProblem::Node& entry = problem.nodes[node];
  entry.costs.push_back(cost);
  entry.usages.push_back(usage);
}

void add_edge(AssignmentProblem& problem, int a, int b, assignment::CostTable costs) {
  const bool matters = std::ranges::any_of(costs, [](Cost cost) { return cost != 0; });
  if (matters) problem.edges.push_back({a, b, std::move(costs)});
}

void add_usage(AssignmentProblem& problem, int node, int first, int end,
               const std::vector<std::int64_t>& bytes) {
  const std::set<std::int64_t> amounts(bytes.begin(), bytes.end());
  const int usage = add_node(problem, first, end);
  std::vector<Cost> costs;
  for (const std::int64_t amount : amounts) add_strategy(problem, usage, 0, amount);
  for (const std::int64_t needed : bytes) {
    for (const std::int64_t amount : amounts) {
      costs.push_back(needed == amount ? 0 : assignment::impossible);
    }
  }
  add_edge(problem, node, usage, std::move(costs));
}

}  // namespace autopar::search
