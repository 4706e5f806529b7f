#include "assignment/presolve/presolve.h"

#include <algorithm>
#include <numeric>

#include "assignment/presolve/usage_rows.h"
#include "assignment/relaxation/message_passing.h"

namespace autopar::assignment {

namespace {

int root(std::vector<int>& parent, int i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

}  // namespace

std::vector<std::vector<int>> components(const AssignmentProblem& problem) {
  std::vector<int> parent(problem.nodes.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto join = [&](int a, int b) { parent[root(parent, a)] = root(parent, b); };
  for (const auto& edge : problem.edges) join(edge.a, edge.b);
  // By first time: a node shares a time with an earlier one if the latest end so far is later.
  std::vector<int> limited;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    if (is_limited(problem.nodes[i])) limited.push_back(static_cast<int>(i));
  }
  std::ranges::stable_sort(limited, {}, [&](int i) { return problem.nodes[i].first; });
  int latest = -1;
  for (const int i : limited) {
    if (latest >= 0 && problem.nodes[i].first < problem.nodes[latest].end) join(i, latest);
    if (latest < 0 || problem.nodes[i].end > problem.nodes[latest].end) latest = i;
  }
  std::size_t parts = 0;
  std::vector<std::size_t> part_of(problem.nodes.size(), problem.nodes.size());  // by root
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    std::size_t& part = part_of[root(parent, static_cast<int>(i))];
    if (part == problem.nodes.size()) part = parts++;
  }
  std::vector<std::vector<int>> result(parts);
  for (const int i : sweep_order(problem)) result[part_of[root(parent, i)]].push_back(i);
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
