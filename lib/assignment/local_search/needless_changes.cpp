#include "assignment/local_search/needless_changes.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace autopar::assignment {

namespace {

/// The connected parts of the nodes whose strategies differ.
std::vector<std::vector<int>> changed_parts(const AssignmentProblem& problem, const Choice& before,
                                            const Choice& after) {
  std::vector<int> next(problem.nodes.size());
  std::iota(next.begin(), next.end(), 0);
  const auto is_changed = [&](int node) { return before[node] != after[node]; };
  for (const auto& edge : problem.edges) {
    if (!is_changed(edge.a) || !is_changed(edge.b)) continue;
    next[root_of(next, edge.a)] = root_of(next, edge.b);
  }
  std::vector<std::vector<int>> parts(problem.nodes.size());
  for (int node = 0; node < static_cast<int>(problem.nodes.size()); ++node) {
    if (is_changed(node)) parts[root_of(next, node)].push_back(node);
  }
  std::erase_if(parts, [](const std::vector<int>& part) { return part.empty(); });
  return parts;
}

}  // namespace

Choice without_needless_changes(const AssignmentProblem& problem, const Choice& before,
                                Choice after, int fixed) {
  Cost cost = cost_of(problem, after);
  for (const std::vector<int>& part : changed_parts(problem, before, after)) {
    if (std::ranges::find(part, fixed) != part.end()) continue;
    Choice restored = after;
    for (const int node : part) restored[node] = before[node];
    const Cost restored_cost = cost_of(problem, restored);
    if (restored_cost > cost || !within_limits(problem, restored)) continue;
    after = std::move(restored);
    cost = restored_cost;
  }
  return after;
}

}  // namespace autopar::assignment
