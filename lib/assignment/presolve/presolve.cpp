// Exact reductions until none applies. Nodes of degree 0, 1 and 2 are eliminated as in solvers for
// partitioned boolean quadratic problems (Scholz and Eckstein 2002, reductions R0, RI and RII).
// Dominated strategies are removed by dead-end elimination (Goldstein 1994): t dominates s where
// changing s to t never costs more, whatever the neighbours choose; t may not use more either. Each
// step is done once for all isomorphic parts of the problem (reductions.h).

#include "assignment/presolve/presolve.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <span>
#include <utility>

#include "assignment/presolve/reductions.h"
#include "assignment/presolve/usage_rows.h"

namespace autopar::assignment {

namespace {

using Edge = AssignmentProblem::Edge;

/// The problem while it is reduced.
struct Core {
  AssignmentProblem problem;                            ///< dropped edges have no costs
  std::vector<std::vector<std::size_t>> edges_of = {};  ///< by node, those not dropped
  std::vector<Presolved::Strategies> strategies = {};   ///< by node, those left
  std::vector<char> is_gone = std::vector<char>(problem.nodes.size(), 0);  ///< by node
  Reductions reductions;
  const SolverParameters::Presolve& parameters;
};

/// Nodes that wait to be reduced, each once.
struct Queue {
  std::deque<int> nodes = {};
  std::vector<char> has_node;

  void push(int i) {
    if (has_node[i]) return;
    has_node[i] = 1;
    nodes.push_back(i);
  }
  int pop() {
    const int i = nodes.front();
    nodes.pop_front();
    has_node[i] = 0;
    return i;
  }
};

int other_end(const Core& core, std::size_t k, int i) {
  const Edge& edge = core.problem.edges[k];
  return edge.a == i ? edge.b : edge.a;
}

HalfEdge half_edge(const Core& core, const Edge& edge, int i) {
  const bool is_row = edge.a == i;
  return {.table = edge.costs,
          .own = core.problem.nodes[i].costs.size(),
          .others = core.problem.nodes[is_row ? edge.b : edge.a].costs.size(),
          .is_row = is_row};
}

std::vector<HalfEdge> half_edges(const Core& core, int i) {
  std::vector<HalfEdge> edges;
  for (const std::size_t k : core.edges_of[i]) {
    edges.push_back(half_edge(core, core.problem.edges[k], i));
  }
  return edges;
}

/// Adds an edge, to the parallel one where there is one. Which edge has its costs.
std::size_t add_edge(Core& core, Edge edge) {
  const auto& of_a = core.edges_of[edge.a];
  const auto& of_b = core.edges_of[edge.b];
  for (const std::size_t k : of_a.size() < of_b.size() ? of_a : of_b) {
    Edge& known = core.problem.edges[k];
    if (std::minmax(known.a, known.b) != std::minmax(edge.a, edge.b)) continue;
    known.costs =
        core.reductions.sum(half_edge(core, known, edge.a), half_edge(core, edge, edge.a));
    return k;
  }
  const std::size_t k = core.problem.edges.size();
  core.edges_of[edge.a].push_back(k);
  core.edges_of[edge.b].push_back(k);
  core.problem.edges.push_back(std::move(edge));
  return k;
}

void detach(Core& core, std::size_t k) {
  Edge& edge = core.problem.edges[k];
  std::erase(core.edges_of[edge.a], k);
  std::erase(core.edges_of[edge.b], k);
  edge.costs = {};
}

void add_costs(Core& core, int i, std::span<const Cost> costs) {
  auto& own = core.problem.nodes[i].costs;
  for (std::size_t s = 0; s < own.size(); ++s) own[s] = plus(own[s], costs[s]);
}

/// Moves the minima of rows and columns into the nodes, and drops an edge that is then 0.
void normalise(Core& core, std::size_t k) {
  Edge& edge = core.problem.edges[k];
  const auto normalised =
      core.reductions.normalise(edge.costs, core.problem.nodes[edge.b].costs.size());
  add_costs(core, edge.a, normalised->row_minima);
  add_costs(core, edge.b, normalised->column_minima);
  edge.costs = normalised->rest;
  if (normalised->is_nothing) detach(core, k);
}

Core make_core(AssignmentProblem problem, const SolverParameters::Presolve& parameters) {
  std::vector<Edge> edges = std::exchange(problem.edges, {});
  Core core{.problem = std::move(problem),
            .reductions = Reductions(parameters),
            .parameters = parameters};
  core.edges_of.resize(core.problem.nodes.size());
  for (const auto& node : core.problem.nodes) {
    std::vector<int> all(node.costs.size());
    std::iota(all.begin(), all.end(), 0);
    core.strategies.push_back(std::make_shared<const std::vector<int>>(std::move(all)));
  }
  core.problem.edges.reserve(edges.size());
  for (auto& edge : edges) {
    edge.costs = core.reductions.unique(edge.costs);
    add_edge(core, std::move(edge));
  }
  for (std::size_t k = 0; k < core.problem.edges.size(); ++k) normalise(core, k);
  return core;
}

/// By strategy, the one that dominates it (Reductions::dominators).
std::shared_ptr<const std::vector<int>> dominators(Core& core, int i) {
  const auto& node = core.problem.nodes[i];
  std::vector<std::vector<char>> is_possible;
  for (const std::size_t k : core.edges_of[i]) {
    auto& possible = is_possible.emplace_back();
    for (const Cost cost : core.problem.nodes[other_end(core, k, i)].costs) {
      possible.push_back(cost < impossible ? 1 : 0);
    }
  }
  const auto usages = is_limited(node) ? node.usages : std::vector<std::int64_t>{};
  return core.reductions.dominators(node.costs, usages, half_edges(core, i), is_possible);
}

void remove(Core& core, int i, const std::vector<char>& is_removed, Queue& queue) {
  auto& node = core.problem.nodes[i];
  for (const std::size_t k : core.edges_of[i]) {
    Edge& edge = core.problem.edges[k];
    edge.costs = core.reductions.remove(half_edge(core, edge, i), is_removed);
    queue.push(other_end(core, k, i));
  }
  const auto filter = [&](auto& values) {
    std::size_t kept = 0;
    for (std::size_t s = 0; s < is_removed.size(); ++s) {
      if (!is_removed[s]) values[kept++] = values[s];
    }
    values.resize(kept);
  };
  filter(node.costs);
  filter(node.usages);
  std::vector<int> strategies = *core.strategies[i];
  filter(strategies);
  core.strategies[i] = std::make_shared<const std::vector<int>>(std::move(strategies));
  if (node.costs.empty()) return;
  const std::vector<std::size_t> touched = core.edges_of[i];
  for (const std::size_t k : touched) normalise(core, k);
  queue.push(i);
}

/// `replacements` are by the whole problem's strategies of the node.
void remove_dominated(Core& core, int i, std::vector<int>& replacements, Queue& queue) {
  const auto better = dominators(core, i);
  const auto& names = *core.strategies[i];
  std::vector<char> is_removed(better->size(), 0);
  for (std::size_t s = 0; s < is_removed.size(); ++s) {
    const int by = (*better)[s];
    is_removed[s] = by != static_cast<int>(s);
    if (is_removed[s] && by >= 0) replacements[names[s]] = names[by];
  }
  if (std::ranges::find(is_removed, 1) != is_removed.end()) remove(core, i, is_removed, queue);
}

/// Eliminates a node whose usage does not depend on its choice. It has one strategy, or at most
/// two neighbours.
void eliminate(Core& core, int i, Queue& queue, Presolved& result) {
  const std::vector<std::size_t> edges = core.edges_of[i];
  const auto& costs = core.problem.nodes[i].costs;
  Presolved::Elimination elimination{i, core.strategies[i], {}, {}, nullptr};
  std::vector<int> neighbours;
  for (const std::size_t k : edges) neighbours.push_back(other_end(core, k, i));
  std::shared_ptr<const Reductions::Eliminated> answer;
  if (costs.size() == 1) {
    result.constant += costs.front();
    for (std::size_t k = 0; k < edges.size(); ++k) {
      add_costs(core, neighbours[k], core.problem.edges[edges[k]].costs);
    }
  } else if (edges.empty()) {
    const auto least = std::ranges::min_element(costs);
    elimination.strategies =
        std::make_shared<const std::vector<int>>(1, (*core.strategies[i])[least - costs.begin()]);
    result.constant += *least;
  } else {
    elimination.neighbours = neighbours;
    for (const int other : neighbours) {
      elimination.neighbour_strategies.push_back(core.strategies[other]);
    }
    answer = core.reductions.eliminate(costs, half_edges(core, i));
    elimination.answers = {answer, &answer->answers};
  }
  for (std::size_t k = 0; k < edges.size(); ++k) {
    queue.push(neighbours[k]);
    detach(core, edges[k]);
  }
  if (answer && edges.size() == 1) add_costs(core, neighbours[0], answer->costs);
  if (answer && edges.size() == 2) {
    normalise(core, add_edge(core, {neighbours[0], neighbours[1], answer->costs}));
  }
  core.is_gone[i] = 1;
  result.eliminations.push_back(std::move(elimination));
}

/// A node whose choice matters to no limit, and whose table would not be too large.
bool can_be_eliminated(const Core& core, int i) {
  const std::vector<std::size_t>& edges = core.edges_of[i];
  if (is_limited(core.problem.nodes[i]) || edges.size() > 2) return false;
  double cells = 1;
  for (const std::size_t k : edges)
    cells *= static_cast<double>(core.problem.nodes[other_end(core, k, i)].costs.size());
  return edges.size() < 2 || cells <= core.parameters.most_cells_of_elimination;
}

/// False where a node has no strategy left. What the deadline leaves is not reduced further.
bool reduce(Core& core, Queue& queue, const Deadline& deadline, Presolved& result) {
  while (!queue.nodes.empty() && deadline.left() > 0) {
    const int i = queue.pop();
    if (core.is_gone[i]) continue;
    const auto& node = core.problem.nodes[i];
    remove_dominated(core, i, result.replacements[i], queue);
    if (node.costs.empty()) return false;
    if (node.costs.size() > 1 && !can_be_eliminated(core, i)) continue;
    const double before = core.reductions.compared_sums();
    eliminate(core, i, queue, result);
    deadline.count((core.reductions.compared_sums() - before) / core.parameters.sums_a_second);
  }
  return true;
}

/// Moves what is left into the result.
void finish(Core core, Presolved& result) {
  std::vector<int> core_of(core.problem.nodes.size(), -1);
  for (std::size_t i = 0; i < core_of.size(); ++i) {
    if (core.is_gone[i]) continue;
    core_of[i] = static_cast<int>(result.nodes.size());
    auto& costs = core.problem.nodes[i].costs;
    const Cost least = std::ranges::min(costs);
    for (Cost& cost : costs) cost -= cost < impossible ? least : 0;
    result.constant += least;
    result.nodes.push_back(static_cast<int>(i));
    result.strategies.push_back(*core.strategies[i]);
    result.core.nodes.push_back(std::move(core.problem.nodes[i]));
  }
  for (Edge& edge : core.problem.edges) {
    if (edge.costs.empty()) continue;
    result.core.edges.push_back({core_of[edge.a], core_of[edge.b], std::move(edge.costs)});
  }
  result.core.usage_limits = std::move(core.problem.usage_limits);
}

}  // namespace

Choice Presolved::original(const Choice& choice) const {
  Choice result(replacements.size(), 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    result[nodes[i]] = strategies[i][choice[i]];
  }
  for (auto e = eliminations.rbegin(); e != eliminations.rend(); ++e) {
    std::size_t index = 0;
    for (std::size_t k = 0; k < e->neighbours.size(); ++k) {
      const auto& left = *e->neighbour_strategies[k];
      const auto place = std::ranges::lower_bound(left, result[e->neighbours[k]]);
      index = index * left.size() + static_cast<std::size_t>(place - left.begin());
    }
    result[e->node] = (*e->strategies)[e->answers ? ((*e->answers)[index]) : 0];
  }
  return result;
}

std::optional<Choice> Presolved::reduced(const Choice& choice) const {
  Choice result;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& replaced_by = replacements[nodes[i]];
    int strategy = choice[nodes[i]];
    while (replaced_by[strategy] >= 0) strategy = replaced_by[strategy];
    const auto found = std::ranges::find(strategies[i], strategy);
    if (found == strategies[i].end()) return std::nullopt;
    result.push_back(static_cast<int>(found - strategies[i].begin()));
  }
  return result;
}

std::optional<Presolved> presolve(AssignmentProblem problem, std::vector<double> prices,
                                  const SolverParameters::Presolve& parameters,
                                  const Deadline& deadline) {
  if (!compress_usage(problem, &prices)) return std::nullopt;
  const std::size_t nodes = problem.nodes.size();
  Presolved result;
  result.prices = std::move(prices);
  for (const auto& node : problem.nodes) result.replacements.emplace_back(node.costs.size(), -1);
  Core core = make_core(std::move(problem), parameters);
  Queue queue{.has_node = std::vector<char>(nodes, 0)};
  // Removing strategies may free limits, which frees nodes, and so on.
  for (std::ptrdiff_t limited = -1;;) {
    for (std::size_t i = 0; i < nodes; ++i) {
      if (!core.is_gone[i]) queue.push(static_cast<int>(i));
    }
    // The usages of eliminated nodes count on.
    if (!reduce(core, queue, deadline, result) || !compress_usage(core.problem, &result.prices)) {
      return std::nullopt;
    }
    const auto still_limited = std::ranges::count_if(core.problem.nodes, is_limited);
    if (still_limited == limited || deadline.left() <= 0) break;
    limited = still_limited;
  }
  finish(std::move(core), result);
  return result;
}

}  // namespace autopar::assignment
