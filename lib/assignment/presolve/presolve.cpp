// Exact reductions until none applies. Nodes of degree 0, 1 and 2 are eliminated as in solvers for
// partitioned boolean quadratic problems (Scholz and Eckstein 2002, reductions R0, RI and RII).
// Dominated strategies are removed by dead-end elimination (Goldstein 1994): t dominates s where
// changing s to t never costs more, whatever the neighbours choose; t may not use more either. Each
// step is done once for all isomorphic parts of the problem (reductions.h).

#include "assignment/presolve/presolve.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <span>

#include "assignment/presolve/reductions.h"
#include "assignment/presolve/usage_rows.h"
#include "assignment/saturating.h"

namespace autopar::assignment {

namespace {

class Presolver {
 public:
  Presolver(AssignmentProblem problem, std::vector<double> prices,
            const SolverParameters::Presolve& parameters)
      : nodes_(std::move(problem.nodes)),
        limits_(std::move(problem.usage_limits)),
        edges_of_(nodes_.size()),
        strategies_(nodes_.size()),
        is_gone_(nodes_.size(), 0),
        is_queued_(nodes_.size(), 0),
        reductions_(parameters) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      std::vector<int> all(nodes_[i].costs.size());
      std::iota(all.begin(), all.end(), 0);
      strategies_[i] = std::make_shared<const std::vector<int>>(std::move(all));
      result_.replacements.emplace_back(nodes_[i].costs.size(), -1);
    }
    result_.prices = std::move(prices);
    edges_.reserve(problem.edges.size());
    for (auto& edge : problem.edges) {
      edge.costs = reductions_.unique(edge.costs);
      add_edge(std::move(edge));
    }
    for (std::size_t k = 0; k < edges_.size(); ++k) normalise(k);
    for (std::size_t i = 0; i < nodes_.size(); ++i) enqueue(static_cast<int>(i));
  }

  std::optional<Presolved> run() {
    // Removing strategies may free limits, which frees nodes, and so on.
    for (std::size_t limited = nodes_.size() + 1;;) {
      if (!reduce_queued() || !compress()) return std::nullopt;
      const std::size_t still_limited =
          static_cast<std::size_t>(std::ranges::count_if(nodes_, is_limited));
      if (still_limited == limited) break;
      limited = still_limited;
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (!is_gone_[i]) enqueue(static_cast<int>(i));
      }
    }
    finish();
    return std::move(result_);
  }

 private:
  using Edge = AssignmentProblem::Edge;

  void enqueue(int i) {
    if (is_queued_[i]) return;
    is_queued_[i] = 1;
    queue_.push_back(i);
  }

  bool reduce_queued() {
    while (!queue_.empty()) {
      const int i = queue_.front();
      queue_.pop_front();
      is_queued_[i] = 0;
      if (is_gone_[i]) continue;
      remove_dominated(i);
      if (nodes_[i].costs.empty()) return false;
      const bool is_free = !is_limited(nodes_[i]) || nodes_[i].costs.size() == 1;
      if (is_free && (edges_of_[i].size() <= 2 || nodes_[i].costs.size() == 1)) {
        eliminate(i);
      }
    }
    return true;
  }

  bool compress() {
    // The usages of eliminated nodes count on.
    AssignmentProblem view{std::move(nodes_), {}, std::move(limits_)};
    const bool is_feasible = compress_usage(view, &result_.prices);
    nodes_ = std::move(view.nodes);
    limits_ = std::move(view.usage_limits);
    return is_feasible;
  }

  int other_end(std::size_t edge, int i) const {
    return edges_[edge].a == i ? edges_[edge].b : edges_[edge].a;
  }
  HalfEdge half_edge(const Edge& edge, int i) const {
    const bool is_row = edge.a == i;
    return {.table = edge.costs,
            .own = nodes_[i].costs.size(),
            .others = nodes_[is_row ? edge.b : edge.a].costs.size(),
            .is_row = is_row};
  }
  HalfEdge half_edge(std::size_t k, int i) const { return half_edge(edges_[k], i); }

  void add_edge(Edge edge) {
    const auto& smaller =
        edges_of_[edge.a].size() < edges_of_[edge.b].size() ? edges_of_[edge.a] : edges_of_[edge.b];
    for (const std::size_t k : smaller) {
      Edge& known = edges_[k];
      if (std::minmax(known.a, known.b) != std::minmax(edge.a, edge.b)) continue;
      known.costs = reductions_.sum(half_edge(known, edge.a), half_edge(edge, edge.a));
      return;
    }
    edges_of_[edge.a].push_back(edges_.size());
    edges_of_[edge.b].push_back(edges_.size());
    edges_.push_back(std::move(edge));
  }

  void add_costs(int i, std::span<const Cost> costs) {
    auto& own = nodes_[i].costs;
    for (std::size_t s = 0; s < own.size(); ++s) own[s] = plus(own[s], costs[s]);
  }

  /// Moves the minima of rows and columns into the nodes, and drops an edge that is then 0.
  void normalise(std::size_t k) {
    Edge& edge = edges_[k];
    const auto normalised = reductions_.normalise(edge.costs, nodes_[edge.b].costs.size());
    add_costs(edge.a, normalised->row_minima);
    add_costs(edge.b, normalised->column_minima);
    edge.costs = normalised->rest;
    if (normalised->is_nothing) detach(k);
  }

  void detach(std::size_t k) {
    std::erase(edges_of_[edges_[k].a], k);
    std::erase(edges_of_[edges_[k].b], k);
    edges_[k].costs = {};
  }

  void remove_dominated(int i) {
    const auto& node = nodes_[i];
    std::vector<HalfEdge> edges;
    std::vector<std::vector<char>> is_possible;
    for (const std::size_t k : edges_of_[i]) {
      edges.push_back(half_edge(k, i));
      auto& possible = is_possible.emplace_back();
      for (const Cost cost : nodes_[other_end(k, i)].costs) {
        possible.push_back(cost < impossible ? 1 : 0);
      }
    }
    const auto dominators = reductions_.dominators(
        node.costs, is_limited(node) ? node.usages : std::vector<std::int64_t>{}, edges,
        is_possible);
    std::vector<char> is_removed(node.costs.size(), 0);
    for (std::size_t s = 0; s < is_removed.size(); ++s) {
      const int better = (*dominators)[s];
      if (better == static_cast<int>(s)) continue;
      is_removed[s] = 1;
      if (better >= 0) {
        const auto& names = *strategies_[i];
        result_.replacements[i][names[s]] = names[better];
      }
    }
    if (std::ranges::find(is_removed, 1) != is_removed.end()) remove(i, is_removed);
  }

  void remove(int i, const std::vector<char>& is_removed) {
    auto& node = nodes_[i];
    for (const std::size_t k : edges_of_[i]) {
      edges_[k].costs = reductions_.remove(half_edge(k, i), is_removed);
      enqueue(other_end(k, i));
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
    std::vector<int> strategies = *strategies_[i];
    filter(strategies);
    strategies_[i] = std::make_shared<const std::vector<int>>(std::move(strategies));
    if (node.costs.empty()) return;
    const std::vector<std::size_t> touched = edges_of_[i];
    for (const std::size_t k : touched) normalise(k);
    enqueue(i);
  }

  /// Eliminates a node whose usage does not depend on its choice. It has one strategy, or at most
  /// two neighbours.
  void eliminate(int i) {
    const std::vector<std::size_t> edges = edges_of_[i];
    const auto& costs = nodes_[i].costs;
    Presolved::Elimination elimination{i, strategies_[i], {}, {}, nullptr};
    std::shared_ptr<const Reductions::Eliminated> answer;
    if (costs.size() == 1) {
      result_.constant += costs.front();
      for (const std::size_t k : edges) add_costs(other_end(k, i), edges_[k].costs);
    } else if (edges.empty()) {
      const auto least = std::ranges::min_element(costs);
      elimination.strategies = std::make_shared<const std::vector<int>>(
          1, (*strategies_[i])[static_cast<std::size_t>(least - costs.begin())]);
      result_.constant += *least;
    } else {
      for (const std::size_t k : edges) {
        elimination.neighbours.push_back(other_end(k, i));
        elimination.neighbour_strategies.push_back(strategies_[other_end(k, i)]);
      }
      answer = edges.size() == 1
                   ? reductions_.eliminate(costs, half_edge(edges[0], i))
                   : reductions_.eliminate(costs, half_edge(edges[0], i), half_edge(edges[1], i));
      elimination.answers = {answer, &answer->answers};
    }
    for (const std::size_t k : edges) {
      enqueue(other_end(k, i));
      detach(k);
    }
    if (edges.size() == 1 && answer) add_costs(other_end(edges[0], i), answer->costs);
    if (edges.size() == 2 && answer) {
      link(other_end(edges[0], i), other_end(edges[1], i), answer->costs);
    }
    is_gone_[i] = 1;
    result_.eliminations.push_back(std::move(elimination));
  }

  void link(int a, int b, const CostTable& costs) {
    add_edge({a, b, costs});
    for (const std::size_t k : edges_of_[a]) {
      if (other_end(k, a) != b) continue;
      normalise(k);
      break;
    }
  }

  void finish() {
    std::vector<int> core_of(nodes_.size(), -1);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (is_gone_[i]) continue;
      core_of[i] = static_cast<int>(result_.nodes.size());
      const Cost least = std::ranges::min(nodes_[i].costs);
      for (Cost& cost : nodes_[i].costs) cost -= cost < impossible ? least : 0;
      result_.constant += least;
      result_.nodes.push_back(static_cast<int>(i));
      result_.strategies.push_back(*strategies_[i]);
      result_.core.nodes.push_back(std::move(nodes_[i]));
    }
    for (Edge& edge : edges_) {
      if (edge.costs.empty()) continue;
      result_.core.edges.push_back({core_of[edge.a], core_of[edge.b], std::move(edge.costs)});
    }
    result_.core.usage_limits = std::move(limits_);
  }

  std::vector<AssignmentProblem::Node> nodes_;
  std::vector<std::int64_t> limits_;
  std::vector<Edge> edges_;  // without costs where dropped
  std::vector<std::vector<std::size_t>> edges_of_;
  std::vector<Presolved::Strategies> strategies_;  // those left
  std::vector<char> is_gone_;
  std::vector<char> is_queued_;
  std::deque<int> queue_;
  Reductions reductions_;
  Presolved result_;
};

}  // namespace

std::vector<int> Presolved::original(const std::vector<int>& choice) const {
  std::vector<int> result(replacements.size(), 0);
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

std::optional<std::vector<int>> Presolved::reduced(const std::vector<int>& choice) const {
  std::vector<int> result;
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

bool has_moderate_costs(const AssignmentProblem& problem) {
  WideCost sum = 0;
  const auto add_largest = [&](const auto& costs) {
    Cost largest = 0;
    for (const Cost cost : costs) {
      if (cost >= impossible) continue;
      largest = std::max(largest, cost < 0 ? -std::max(cost, -impossible) : cost);
    }
    sum += largest;
  };
  for (const auto& node : problem.nodes) add_largest(node.costs);
  for (const auto& edge : problem.edges) add_largest(edge.costs);
  return sum < impossible / 4;
}

std::optional<Presolved> presolve(AssignmentProblem problem, std::vector<double> prices,
                                  const SolverParameters::Presolve& parameters) {
  if (!compress_usage(problem, &prices)) return std::nullopt;
  return Presolver(std::move(problem), std::move(prices), parameters).run();
}

}  // namespace autopar::assignment
