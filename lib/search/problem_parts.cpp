#include "search/problem_parts.h"

#include <algorithm>
#include <set>
#include <utility>

namespace autopar::search {

using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::impossible;

int add_node(AssignmentProblem& problem, int first, int end, std::vector<std::int64_t> usages,
             std::vector<Cost> costs) {
  if (costs.empty()) costs.resize(usages.size());
  problem.nodes.push_back({std::move(costs), std::move(usages), first, end});
  return static_cast<int>(problem.nodes.size()) - 1;
}

void add_edge(AssignmentProblem& problem, int a, int b, assignment::CostTable costs) {
  const bool matters = std::ranges::any_of(costs, [](Cost cost) { return cost != 0; });
  if (matters) problem.edges.push_back({a, b, std::move(costs)});
}

void add_usage(AssignmentProblem& problem, int node, int first, int end,
               const std::vector<std::int64_t>& bytes) {
  const std::set<std::int64_t> amounts(bytes.begin(), bytes.end());
  const int usage = add_node(problem, first, end, {amounts.begin(), amounts.end()});
  std::vector<Cost> costs;
  for (const std::int64_t needed : bytes)
    for (const std::int64_t amount : amounts) costs.push_back(needed == amount ? 0 : impossible);
  add_edge(problem, node, usage, std::move(costs));
}

void fix(AssignmentProblem::Node& node, int strategy) {
  for (int s = 0; s < std::ssize(node.costs); ++s)
    if (s != strategy) node.costs[s] = impossible;
}

}  // namespace autopar::search
