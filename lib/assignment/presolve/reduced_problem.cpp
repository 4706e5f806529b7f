#include "assignment/presolve/reduced_problem.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "assignment/presolve/reductions.h"

namespace autopar::assignment {

namespace {

/// Drops the strategies of one of the edge's nodes that have no possible partner at the other.
/// Whether there was one.
bool drop_without_partner(const AssignmentProblem& problem, const AssignmentProblem::Edge& edge,
                          int node, const std::vector<char>& others, std::vector<char>& alive) {
  bool has_dropped = false;
  for (std::size_t s = 0; s < alive.size(); ++s) {
    if (!alive[s]) continue;
    bool has_partner = false;
    for (std::size_t t = 0; t < others.size() && !has_partner; ++t) {
      has_partner = others[t] && pair_cost(problem, edge, node, s, t) < impossible;
    }
    if (has_partner) continue;
    alive[s] = 0;
    has_dropped = true;
  }
  return has_dropped;
}

/// By node and strategy, whether arc consistency leaves it: every one that is left has a possible
/// partner on every edge (AC-3, Mackworth 1977).
std::vector<std::vector<char>> arc_consistent(const AssignmentProblem& problem) {
  std::vector<std::vector<char>> alive;
  for (const auto& node : problem.nodes) {
    std::vector<char>& possible = alive.emplace_back();
    for (const Cost cost : node.costs) possible.push_back(cost < impossible ? 1 : 0);
  }
  const auto links = links_of(problem);
  std::vector<std::size_t> open(problem.edges.size());
  std::iota(open.begin(), open.end(), 0);
  std::vector<char> is_open(open.size(), 1);
  while (!open.empty()) {
    const std::size_t k = open.back();
    open.pop_back();
    is_open[k] = 0;
    const auto& edge = problem.edges[k];
    for (const auto& [node, other] : {std::pair(edge.a, edge.b), std::pair(edge.b, edge.a)}) {
      if (!drop_without_partner(problem, edge, node, alive[other], alive[node])) continue;
      for (const Link& link : links[node]) {
        if (!is_open[link.edge]) open.push_back(link.edge);
        is_open[link.edge] = 1;
      }
    }
  }
  return alive;
}

/// Sums the edges between each pair of nodes, restricted to the strategies that are left.
std::map<std::pair<int, int>, std::vector<Cost>> merged_edges(const AssignmentProblem& problem,
                                                              const ReducedProblem& reduced) {
  std::map<std::pair<int, int>, std::vector<Cost>> merged;
  for (const auto& edge : problem.edges) {
    const auto [low, high] = std::minmax(edge.a, edge.b);
    const auto& rows = reduced.nodes[low].strategies;
    const auto& columns = reduced.nodes[high].strategies;
    auto& sums = merged[{low, high}];
    sums.resize(rows.size() * columns.size(), 0);
    Cost* sum = sums.data();
    for (const int row : rows) {
      for (const int column : columns) {
        *sum = plus(*sum, pair_cost(problem, edge, low, row, column));
        ++sum;
      }
    }
  }
  return merged;
}

void add_possible(const std::vector<Cost>& minima, std::vector<WideCost>& costs) {
  for (std::size_t s = 0; s < costs.size(); ++s) costs[s] += minima[s] < impossible ? minima[s] : 0;
}

/// The edge between two nodes with these costs, equal rows and columns in classes.
ReducedProblem::Edge grouped(int a, int b, const CostTable& costs, std::size_t columns) {
  std::vector<Cost> turned;
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t k = c; k < costs.size(); k += columns) turned.push_back(costs[k]);
  }
  ReducedProblem::Edge edge{a,
                            b,
                            row_classes<Cost>({costs.begin(), costs.end()}, columns),
                            row_classes<Cost>(turned, costs.size() / columns),
                            {}};
  for (const std::size_t r : edge.rows.representatives) {
    for (const std::size_t c : edge.columns.representatives) {
      edge.costs.push_back(costs[r * columns + c]);
    }
  }
  return edge;
}

}  // namespace

std::optional<ReducedProblem> reduce(const AssignmentProblem& problem) {
  const auto alive = arc_consistent(problem);
  ReducedProblem reduced;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const auto& node = problem.nodes[i];
    ReducedProblem::Node& left = reduced.nodes.emplace_back();
    left.first = node.first;
    left.end = node.end;
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      if (!alive[i][s]) continue;
      left.strategies.push_back(static_cast<int>(s));
      left.costs.push_back(node.costs[s]);
      left.usages.push_back(node.usages[s]);
    }
    if (left.strategies.empty()) return std::nullopt;
  }
  for (auto& [ends, sums] : merged_edges(problem, reduced)) {
    auto& a = reduced.nodes[ends.first];
    auto& b = reduced.nodes[ends.second];
    const auto normalised = Reductions().normalise(std::move(sums), b.costs.size());
    add_possible(normalised->row_minima, a.costs);
    add_possible(normalised->column_minima, b.costs);
    if (normalised->is_nothing) continue;
    reduced.edges.push_back(grouped(ends.first, ends.second, normalised->rest, b.costs.size()));
  }
  for (auto& node : reduced.nodes) {
    const WideCost least = *std::ranges::min_element(node.costs);
    reduced.constant += least;
    for (WideCost& cost : node.costs) cost -= least;
  }
  return reduced;
}

Choice ReducedProblem::original(const Choice& choice) const {
  Choice result;
  for (std::size_t i = 0; i < choice.size(); ++i) result.push_back(nodes[i].strategies[choice[i]]);
  return result;
}

std::optional<Choice> ReducedProblem::reduced(const Choice& choice) const {
  Choice result;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const auto& left = nodes[i].strategies;
    const auto found = std::ranges::find(left, choice[i]);
    if (found == left.end()) return std::nullopt;
    result.push_back(static_cast<int>(found - left.begin()));
  }
  return result;
}

std::vector<LimitedSet> limited_sets(const ReducedProblem& problem,
                                     const std::vector<std::int64_t>& usage_limits) {
  const std::size_t times = usage_limits.size();
  std::vector<std::vector<int>> starting(times + 1);
  std::vector<std::vector<int>> ending(times + 1);
  std::vector<WideCost> largest;  // by node, of its usages
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const auto& node = problem.nodes[i];
    largest.push_back(*std::ranges::max_element(node.usages));
    if (largest[i] == 0 || node.first >= node.end) continue;
    if (std::cmp_greater_equal(node.first, times)) continue;
    starting[node.first].push_back(static_cast<int>(i));
    ending[std::min<std::size_t>(node.end, times)].push_back(static_cast<int>(i));
  }

  std::vector<LimitedSet> sets;
  std::set<int> alive;
  bool grown = false;  // since the last set, or since the limit changed
  for (std::size_t t = 0; t < times; ++t) {
    for (const int i : ending[t]) alive.erase(i);
    alive.insert(starting[t].begin(), starting[t].end());
    const std::int64_t limit = usage_limits[t];
    grown = grown || !starting[t].empty() || t == 0 || usage_limits[t - 1] != limit;
    const bool is_last = t + 1 == times || usage_limits[t + 1] != limit || !ending[t + 1].empty();
    if (limit < 0 || !grown || !is_last) continue;
    grown = false;
    WideCost most = 0;
    for (const int i : alive) most += largest[i];
    if (most > limit) sets.push_back({limit, {alive.begin(), alive.end()}});
  }
  return sets;
}

}  // namespace autopar::assignment
