#include "assignment/presolve/reduced_problem.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace autopar::assignment {

namespace {

/// An edge's costs, by the strategies that are left.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<Cost> entries;
  Cost& operator()(std::size_t row, std::size_t column) { return entries[row * columns + column]; }
};

/// The strategies that arc consistency leaves.
class Survivors {
 public:
  explicit Survivors(const AssignmentProblem& problem) : problem_(problem) {
    for (const auto& node : problem.nodes) {
      std::vector<char>& alive = alive_.emplace_back();
      for (const Cost cost : node.costs) alive.push_back(cost < impossible ? 1 : 0);
    }
  }

  /// Removes strategies until every one has a possible partner on every edge (AC-3,
  /// Mackworth 1977). False where a node has none left.
  bool reach_arc_consistency() {
    std::vector<std::vector<std::size_t>> edges_of(problem_.nodes.size());
    std::vector<std::size_t> open;
    std::vector<char> is_open(problem_.edges.size(), 1);
    for (std::size_t k = 0; k < problem_.edges.size(); ++k) {
      edges_of[problem_.edges[k].a].push_back(k);
      edges_of[problem_.edges[k].b].push_back(k);
      open.push_back(k);
    }
    const auto reopen = [&](int node) {
      for (const std::size_t k : edges_of[node]) {
        if (!is_open[k]) open.push_back(k);
        is_open[k] = 1;
      }
    };
    while (!open.empty()) {
      const std::size_t k = open.back();
      open.pop_back();
      is_open[k] = 0;
      const auto& edge = problem_.edges[k];
      if (drop_rows_without_partner(edge)) reopen(edge.a);
      if (drop_columns_without_partner(edge)) reopen(edge.b);
    }
    return std::ranges::all_of(alive_, [](const auto& node) {
      return std::ranges::any_of(node, [](char alive) { return alive != 0; });
    });
  }

  std::vector<int> of(std::size_t node) const {
    std::vector<int> left;
    for (std::size_t s = 0; s < alive_[node].size(); ++s) {
      if (alive_[node][s]) left.push_back(static_cast<int>(s));
    }
    return left;
  }

 private:
  bool drop_rows_without_partner(const AssignmentProblem::Edge& edge) {
    const std::size_t columns = alive_[edge.b].size();
    return drop(edge.a, edge.b,
                [&](std::size_t s, std::size_t t) { return edge.costs[s * columns + t]; });
  }
  bool drop_columns_without_partner(const AssignmentProblem::Edge& edge) {
    const std::size_t columns = alive_[edge.b].size();
    return drop(edge.b, edge.a,
                [&](std::size_t t, std::size_t s) { return edge.costs[s * columns + t]; });
  }
  template <typename CostOfPair>
  bool drop(int from, int partner, const CostOfPair& cost) {
    bool dropped = false;
    const std::vector<char>& others = alive_[partner];
    std::vector<char>& mine = alive_[from];
    for (std::size_t s = 0; s < mine.size(); ++s) {
      if (!mine[s]) continue;
      bool has_partner = false;
      for (std::size_t t = 0; t < others.size() && !has_partner; ++t) {
        has_partner = others[t] && cost(s, t) < impossible;
      }
      if (has_partner) continue;
      mine[s] = 0;
      dropped = true;
    }
    return dropped;
  }

  const AssignmentProblem& problem_;
  std::vector<std::vector<char>> alive_;
};

/// Sums the edges between each pair of nodes, restricted to the strategies that are left.
std::map<std::pair<int, int>, Matrix> merged_edges(const AssignmentProblem& problem,
                                                   const ReducedProblem& reduced) {
  std::map<std::pair<int, int>, Matrix> merged;
  for (const auto& edge : problem.edges) {
    const bool swapped = edge.a > edge.b;
    const int low = std::min(edge.a, edge.b);
    const int high = std::max(edge.a, edge.b);
    const auto& rows = reduced.nodes[low].strategies;
    const auto& columns = reduced.nodes[high].strategies;
    Matrix& matrix = merged[{low, high}];
    if (matrix.entries.empty()) {
      matrix = {rows.size(), columns.size(), std::vector<Cost>(rows.size() * columns.size(), 0)};
    }
    const std::size_t stride = problem.nodes[edge.b].costs.size();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const std::size_t s = swapped ? columns[c] : rows[r];
        const std::size_t t = swapped ? rows[r] : columns[c];
        const Cost cost = edge.costs[s * stride + t];
        Cost& sum = matrix(r, c);
        sum = cost >= impossible || sum >= impossible ? impossible : sum + cost;
      }
    }
  }
  return merged;
}

/// Moves each row's least possible cost into `costs`, and leaves `impossible` as it is.
void move_row_minima(Matrix& matrix, std::vector<WideCost>& costs) {
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    Cost least = impossible;
    for (std::size_t c = 0; c < matrix.columns; ++c) least = std::min(least, matrix(r, c));
    if (least >= impossible) continue;
    for (std::size_t c = 0; c < matrix.columns; ++c) {
      if (matrix(r, c) < impossible) matrix(r, c) -= least;
    }
    costs[r] += least;
  }
}

Matrix transposed(Matrix& matrix) {
  Matrix result{matrix.columns, matrix.rows, std::vector<Cost>(matrix.entries.size())};
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    for (std::size_t c = 0; c < matrix.columns; ++c) result(c, r) = matrix(r, c);
  }
  return result;
}

/// The class of each row, and a row of each class; equal rows share a class.
std::pair<std::vector<int>, std::vector<std::size_t>> row_classes(Matrix& matrix) {
  std::map<std::vector<Cost>, int> classes;
  std::vector<int> class_of;
  std::vector<std::size_t> representatives;
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    const auto begin = matrix.entries.begin() + static_cast<std::ptrdiff_t>(r * matrix.columns);
    std::vector<Cost> row(begin, begin + static_cast<std::ptrdiff_t>(matrix.columns));
    const auto [entry, is_new] =
        classes.try_emplace(std::move(row), static_cast<int>(classes.size()));
    if (is_new) representatives.push_back(r);
    class_of.push_back(entry->second);
  }
  return {std::move(class_of), std::move(representatives)};
}

ReducedProblem::Edge grouped(int a, int b, Matrix& matrix) {
  auto [class_of_a, rows] = row_classes(matrix);
  Matrix turned = transposed(matrix);
  auto [class_of_b, columns] = row_classes(turned);
  ReducedProblem::Edge edge{a,
                            b,
                            std::move(class_of_a),
                            std::move(class_of_b),
                            static_cast<int>(rows.size()),
                            static_cast<int>(columns.size()),
                            {}};
  for (const std::size_t r : rows) {
    for (const std::size_t c : columns) edge.costs.push_back(matrix(r, c));
  }
  return edge;
}

}  // namespace

std::optional<ReducedProblem> reduce(const AssignmentProblem& problem) {
  Survivors survivors(problem);
  if (!survivors.reach_arc_consistency()) return std::nullopt;

  ReducedProblem reduced;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const auto& node = problem.nodes[i];
    ReducedProblem::Node& left = reduced.nodes.emplace_back();
    left.strategies = survivors.of(i);
    left.first = node.first;
    left.end = node.end;
    for (const int s : left.strategies) {
      left.costs.push_back(node.costs[s]);
      left.usages.push_back(node.usages[s]);
    }
  }
  for (auto& [ends, matrix] : merged_edges(problem, reduced)) {
    const auto [a, b] = ends;
    move_row_minima(matrix, reduced.nodes[a].costs);
    Matrix turned = transposed(matrix);
    move_row_minima(turned, reduced.nodes[b].costs);
    matrix = transposed(turned);
    if (std::ranges::all_of(matrix.entries, [](Cost cost) { return cost == 0; })) continue;
    reduced.edges.push_back(grouped(a, b, matrix));
  }
  for (auto& node : reduced.nodes) {
    const WideCost least = *std::ranges::min_element(node.costs);
    reduced.constant += least;
    for (WideCost& cost : node.costs) cost -= least;
  }
  return reduced;
}

std::vector<int> ReducedProblem::original(const std::vector<int>& choice) const {
  std::vector<int> result;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    result.push_back(nodes[i].strategies[choice[i]]);
  }
  return result;
}

std::optional<std::vector<int>> ReducedProblem::reduced(const std::vector<int>& choice) const {
  std::vector<int> result;
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
