#include "assignment/presolve/presolve.h"

#include <algorithm>
#include <numeric>

#include "assignment/presolve/usage_rows.h"
#include "assignment/relaxation/message_passing.h"

namespace autopar::assignment {

std::vector<std::vector<int>> components(const AssignmentProblem& problem) {
  std::vector<int> next(problem.nodes.size());
  std::iota(next.begin(), next.end(), 0);
  std::vector<int> by_first = next;
  const auto join = [&](int a, int b) { next[root_of(next, a)] = root_of(next, b); };
  for (const auto& edge : problem.edges) join(edge.a, edge.b);
  // By first time: a node shares a time with an earlier one if the latest end so far is later.
  std::ranges::stable_sort(by_first, {}, [&](int i) { return problem.nodes[i].first; });
  int latest = -1;
  for (const int i : by_first) {
    if (!is_limited(problem.nodes[i])) continue;
    if (latest >= 0 && problem.nodes[i].first < problem.nodes[latest].end) join(i, latest);
    if (latest < 0 || problem.nodes[i].end > problem.nodes[latest].end) latest = i;
  }
  std::size_t parts = 0;
  std::vector<std::size_t> part_of(problem.nodes.size(), problem.nodes.size());  // by root
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    std::size_t& part = part_of[root_of(next, static_cast<int>(i))];
    if (part == problem.nodes.size()) part = parts++;
  }
  std::vector<std::vector<int>> result(parts);
  for (const int i : sweep_order(problem)) result[part_of[root_of(next, i)]].push_back(i);
  return result;
}

std::vector<AssignmentProblem> subproblems(AssignmentProblem problem,
                                           const std::vector<std::vector<int>>& parts) {
  std::vector<AssignmentProblem> result(parts.size());
  std::vector<std::size_t> part_of(problem.nodes.size());
  std::vector<int> place(problem.nodes.size());
  for (std::size_t k = 0; k < parts.size(); ++k) {
    result[k].usage_limits = problem.usage_limits;
    for (const int i : parts[k]) {
      part_of[i] = k;
      place[i] = static_cast<int>(result[k].nodes.size());
      result[k].nodes.push_back(std::move(problem.nodes[i]));
    }
  }
  for (auto& edge : problem.edges) {
    result[part_of[edge.a]].edges.push_back({place[edge.a], place[edge.b], std::move(edge.costs)});
  }
  return result;
}

}  // namespace autopar::assignment
