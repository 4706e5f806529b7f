#include "search/components.h"

#include <algorithm>
#include <numeric>

#include "search/usage_rows.h"

namespace autopar::search {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

int root(std::vector<int>& parent, int i) {
  while (parent[at(i)] != i) i = parent[at(i)] = parent[at(parent[at(i)])];
  return i;
}

}  // namespace

std::vector<std::vector<int>> components(const AssignmentProblem& problem) {
  std::vector<int> parent(problem.nodes.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto join = [&](int a, int b) { parent[at(root(parent, a))] = root(parent, b); };
  for (const auto& edge : problem.edges) join(edge.a, edge.b);
  // Limited nodes by their first times: each meets an earlier one if the latest end is after that.
  std::vector<int> limited;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    if (is_limited(problem.nodes[i])) limited.push_back(static_cast<int>(i));
  }
  std::ranges::stable_sort(limited, {}, [&](int i) { return problem.nodes[at(i)].first; });
  int latest = -1;
  for (const int i : limited) {
    if (latest >= 0 && problem.nodes[at(i)].first < problem.nodes[at(latest)].end) join(i, latest);
    if (latest < 0 || problem.nodes[at(i)].end > problem.nodes[at(latest)].end) latest = i;
  }
  std::vector<std::vector<int>> result;
  std::vector<int> index(problem.nodes.size(), -1);
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    int& place = index[at(root(parent, static_cast<int>(i)))];
    if (place < 0) {
      place = static_cast<int>(result.size());
      result.emplace_back();
    }
    result[at(place)].push_back(static_cast<int>(i));
  }
  return result;
}

AssignmentProblem subproblem(const AssignmentProblem& problem, const std::vector<int>& nodes) {
  AssignmentProblem part;
  part.usage_limits = problem.usage_limits;
  std::vector<int> index(problem.nodes.size(), -1);
  for (const int i : nodes) {
    index[at(i)] = static_cast<int>(part.nodes.size());
    part.nodes.push_back(problem.nodes[at(i)]);
  }
  for (const auto& edge : problem.edges) {
    if (index[at(edge.a)] < 0 || index[at(edge.b)] < 0) continue;
    part.edges.push_back({index[at(edge.a)], index[at(edge.b)], edge.costs});
  }
  return part;
}

}  // namespace autopar::search
