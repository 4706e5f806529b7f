#include "assignment/elimination/held_elimination.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "assignment/elimination/elimination.h"

namespace autopar::assignment {

namespace {

/// A node is not held where that takes no more than so many times the cells, if they are not few.
constexpr double most_growth = 2;

void remove_edges(AssignmentProblem& problem, const std::vector<char>& is_held) {
  std::erase_if(problem.edges, [&](const AssignmentProblem::Edge& edge) {
    return is_held[edge.a] || is_held[edge.b];
  });
}

struct OrderedCells {
  EliminationOrder order;
  double cells;
};

/// The order of the fewest cells; nullopt where all have more than the limits.
std::optional<OrderedCells> least_cells(const AssignmentProblem& problem,
                                        const HeldElimination::Limits& limits) {
  std::optional<OrderedCells> best;
  for (const EliminationOrder order : elimination_orders) {
    const auto cells = cells_to_eliminate(problem, limits.most_cells_of_all, order);
    if (cells && *cells <= limits.most_cells && (!best || *cells < best->cells))
      best = {order, *cells};
  }
  return best;
}

}  // namespace

std::optional<HeldElimination> HeldElimination::make(const AssignmentProblem& problem,
                                                     const Limits& limits) {
  HeldElimination made;
  made.links_ = links_of(problem);
  made.is_held_.assign(problem.nodes.size(), 0);
  std::vector<int> by_edges(problem.nodes.size());
  std::iota(by_edges.begin(), by_edges.end(), 0);
  std::ranges::stable_sort(by_edges, std::greater<>(),
                           [&](int i) { return made.links_[i].size(); });
  const auto cells_with = [&](int count) {
    std::vector<char> is_held(problem.nodes.size(), 0);
    for (int k = 0; k < count; ++k) is_held[by_edges[k]] = 1;
    AssignmentProblem left = problem;
    remove_edges(left, is_held);
    return least_cells(left, limits);
  };
  int held = std::min(limits.most_held, static_cast<int>(by_edges.size()));
  auto best = cells_with(held);
  if (!best) return std::nullopt;
  for (; held > 0; --held) {
    const auto one_less = cells_with(held - 1);
    if (!one_less || one_less->cells > std::max(limits.few_cells, most_growth * best->cells)) break;
    best = one_less;
  }
  made.order_ = best->order;
  made.cells_ = best->cells;
  made.held_.assign(by_edges.begin(), by_edges.begin() + held);
  for (const int i : made.held_) made.is_held_[i] = 1;
  return made;
}

AssignmentProblem HeldElimination::without_held(const AssignmentProblem& problem) const {
  AssignmentProblem left = problem;
  for (const int i : held_) left.nodes[i].costs = {0};
  remove_edges(left, is_held_);
  return left;
}

std::optional<Choice> HeldElimination::eliminate(const AssignmentProblem& left,
                                                 const Deadline& deadline,
                                                 double& looked_at) const {
  return choose_by_elimination(left, {.order = order_, .deadline = deadline}, &looked_at);
}

HeldElimination::Relaxed HeldElimination::relaxed(const AssignmentProblem& problem,
                                                  const Deadline& deadline,
                                                  double& looked_at) const {
  AssignmentProblem left = without_held(problem);
  for (const int i : held_) {
    const std::vector<Cost>& own = problem.nodes[i].costs;
    const auto edges = std::ssize(links_[i]);
    for (const auto& [edge, other] : links_[i]) {
      if (is_held_[other]) continue;
      std::vector<Cost>& costs = left.nodes[other].costs;
      std::vector<Cost> least(costs.size(), impossible);
      for (std::size_t s = 0; s < own.size(); ++s) {
        if (own[s] >= impossible) continue;
        const Cost part = own[s] / edges + (edge == links_[i].front().edge ? own[s] % edges : 0);
        for (std::size_t t = 0; t < least.size(); ++t)
          least[t] =
              std::min(least[t], plus(part, pair_cost(problem, problem.edges[edge], i, s, t)));
      }
      for (std::size_t t = 0; t < costs.size(); ++t) costs[t] = plus(costs[t], least[t]);
    }
  }
  auto choice = eliminate(left, deadline, looked_at);
  if (!choice) return {};
  Relaxed made{std::move(*choice), 0};
  made.bound = cost_of(left, made.choice);
  move_held(problem, made.choice);
  return made;
}

Choice HeldElimination::complete(const AssignmentProblem& problem, const Choice& start,
                                 const Deadline& deadline, double& looked_at) const {
  AssignmentProblem left = without_held(problem);
  for (const int i : held_) {
    for (const auto& [edge, other] : links_[i]) {
      if (is_held_[other]) continue;
      std::vector<Cost>& costs = left.nodes[other].costs;
      for (std::size_t t = 0; t < costs.size(); ++t)
        costs[t] = plus(costs[t], pair_cost(problem, problem.edges[edge], i,
                                            static_cast<std::size_t>(start[i]), t));
    }
  }
  auto choice = eliminate(left, deadline, looked_at);
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
