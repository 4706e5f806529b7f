#include "assignment/elimination/held_elimination.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "assignment/memo.h"

namespace autopar::assignment {

namespace {

/// A node is not held where that takes no more than so many times the cells, if they are not few.
constexpr double most_growth = 2;

/// The problem with nodes that have one strategy at no cost and no edges.
AssignmentProblem without_nodes(const AssignmentProblem& problem, const std::vector<int>& nodes) {
  AssignmentProblem left = problem;
  std::vector<char> is_out(problem.nodes.size(), 0);
  for (const int i : nodes) {
    is_out[i] = 1;
    left.nodes[i].costs = {0};
  }
  std::erase_if(left.edges, [&](const AssignmentProblem::Edge& edge) {
    return is_out[edge.a] || is_out[edge.b];
  });
  return left;
}

/// By strategy of the edge's other node, the least sum of a cost of `node` and the pair's.
std::vector<Cost> least_with(const std::vector<Cost>& costs, const AssignmentProblem& problem,
                             const AssignmentProblem::Edge& edge, int node, std::size_t others) {
  std::vector<Cost> least(others, impossible);
  for (std::size_t s = 0; s < costs.size(); ++s)
    for (std::size_t t = 0; t < others; ++t)
      least[t] = std::min(least[t], plus(costs[s], pair_cost(problem, edge, node, s, t)));
  return least;
}

struct CountedElimination {
  Elimination elimination;
  double cells;
};

/// In the order of the fewest cells; nullopt where all have more than the limits.
std::optional<CountedElimination> least_cells(const AssignmentProblem& problem,
                                              const HeldElimination::Limits& limits) {
  std::optional<CountedElimination> best;
  for (const EliminationOrder order : elimination_orders) {
    auto elimination =
        Elimination::make(problem, {.order = order, .most_cells = limits.most_cells_of_all});
    if (!elimination) continue;
    const double cells = elimination->cells(problem);
    if (cells <= limits.most_cells && (!best || cells < best->cells))
      best = {std::move(*elimination), cells};
  }
  return best;
}

}  // namespace

std::optional<HeldElimination> HeldElimination::make(const AssignmentProblem& problem,
                                                     const Limits& limits) {
  Links links = links_of(problem);
  std::vector<int> by_edges(problem.nodes.size());
  std::iota(by_edges.begin(), by_edges.end(), 0);
  std::ranges::stable_sort(by_edges, std::greater<>(), [&](int i) { return links[i].size(); });
  const auto cells_with = [&](int count) {
    const std::vector<int> held(by_edges.begin(), by_edges.begin() + count);
    return least_cells(without_nodes(problem, held), limits);
  };
  int held = std::min(limits.most_held, static_cast<int>(by_edges.size()));
  auto best = cells_with(held);
  if (!best) return std::nullopt;
  for (; held > 0; --held) {
    auto one_less = cells_with(held - 1);
    if (!one_less || one_less->cells > std::max(limits.few_cells, most_growth * best->cells)) break;
    best = std::move(one_less);
  }
  by_edges.resize(held);
  return HeldElimination(std::move(links), std::move(by_edges), std::move(best->elimination),
                         best->cells);
}

HeldElimination::HeldElimination(Links links, std::vector<int> held, Elimination of_rest,
                                 double cells)
    : links_(std::move(links)),
      held_(std::move(held)),
      is_held_(links_.size(), 0),
      of_rest_(std::move(of_rest)),
      cells_(cells) {
  for (const int i : held_) is_held_[i] = 1;
}

HeldElimination::Relaxed HeldElimination::relaxed(const AssignmentProblem& problem,
                                                  const Deadline& deadline,
                                                  double& looked_at) const {
  AssignmentProblem left = without_nodes(problem, held_);
  for (const int i : held_) {
    const std::vector<Cost>& own = problem.nodes[i].costs;
    const auto count = std::ssize(links_[i]);
    Memo<std::vector<Cost>> memo;  // layers have the same edges
    for (const Link& link : links_[i]) {
      if (is_held_[link.other]) continue;
      const AssignmentProblem::Edge& edge = problem.edges[link.edge];
      const bool is_first = &link == &links_[i].front();
      std::vector<Cost>& costs = left.nodes[link.other].costs;
      MemoKey key;
      key.add(edge.costs).add(edge.a == i).add(is_first);
      const auto least = memo.get(key, [&] {
        std::vector<Cost> parts;
        for (const Cost cost : own)
          parts.push_back(cost >= impossible ? impossible
                                             : cost / count + (is_first ? cost % count : 0));
        return least_with(parts, problem, edge, i, costs.size());
      });
      for (std::size_t t = 0; t < costs.size(); ++t) costs[t] = plus(costs[t], (*least)[t]);
    }
  }
  auto choice = of_rest_.choose(left, deadline, looked_at);
  if (!choice) return {};
  Relaxed made{std::move(*choice), 0};
  made.bound = cost_of(left, made.choice);
  move_held(problem, made.choice);
  return made;
}

Choice HeldElimination::complete(const AssignmentProblem& problem, const Choice& start,
                                 const Deadline& deadline, double& looked_at) const {
  AssignmentProblem left = without_nodes(problem, held_);
  for (const int i : held_) {
    for (const auto& [edge, other] : links_[i]) {
      if (is_held_[other]) continue;
      std::vector<Cost>& costs = left.nodes[other].costs;
      for (std::size_t t = 0; t < costs.size(); ++t)
        costs[t] = plus(costs[t], pair_cost(problem, problem.edges[edge], i,
                                            static_cast<std::size_t>(start[i]), t));
    }
  }
  auto choice = of_rest_.choose(left, deadline, looked_at);
  if (!choice) return {};
  for (const int i : held_) (*choice)[i] = start[i];
  return std::move(*choice);
}

bool HeldElimination::move_held(const AssignmentProblem& problem, Choice& choice) const {
  bool has_moved = false;
  for (const int i : held_) {
    std::vector<Cost> costs = problem.nodes[i].costs;
    for (const auto& [edge, other] : links_[i])
      for (std::size_t s = 0; s < costs.size(); ++s)
        costs[s] = plus(costs[s], pair_cost(problem, problem.edges[edge], i, s,
                                            static_cast<std::size_t>(choice[other])));
    const auto best = std::ranges::min_element(costs);
    if (*best >= costs[choice[i]]) continue;
    choice[i] = static_cast<int>(best - costs.begin());
    has_moved = true;
  }
  return has_moved;
}

}  // namespace autopar::assignment
