// Exact reductions until none applies. Nodes of degree 0, 1 and 2 go as in solvers for partitioned
// boolean quadratic problems (Scholz and Eckstein 2002, reductions R0, RI and RII). Strategies go
// by Goldstein's criterion (1994, dead-end elimination in protein design): s is dominated by t
// where changing s to t never costs more, whatever the neighbours choose; t may not use more
// either.

#include "search/presolve.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "search/saturating.h"
#include "search/usage_rows.h"

namespace autopar::search {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Presolver {
 public:
  Presolver(AssignmentProblem problem, std::vector<double> prices)
      : nodes_(std::move(problem.nodes)),
        limits_(std::move(problem.usage_limits)),
        edges_of_(nodes_.size()),
        strategies_(nodes_.size()),
        is_gone_(nodes_.size(), 0),
        is_queued_(nodes_.size(), 0) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      strategies_[i].resize(nodes_[i].costs.size());
      std::iota(strategies_[i].begin(), strategies_[i].end(), 0);
      result_.strategy_counts.push_back(static_cast<int>(nodes_[i].costs.size()));
      result_.replacements.emplace_back(nodes_[i].costs.size(), -1);
    }
    result_.prices = std::move(prices);
    edges_.reserve(problem.edges.size());
    for (auto& edge : problem.edges) add_edge(std::move(edge));
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
  /// Comparing all strategies of one node costs at most so many steps; beyond, none is compared.
  static constexpr double most_comparisons = 2e7;

  void enqueue(int i) {
    if (is_queued_[at(i)]) return;
    is_queued_[at(i)] = 1;
    queue_.push_back(i);
  }

  bool reduce_queued() {
    while (!queue_.empty()) {
      const int i = queue_.front();
      queue_.pop_front();
      is_queued_[at(i)] = 0;
      if (is_gone_[at(i)]) continue;
      remove_useless_strategies(i);
      if (nodes_[at(i)].costs.empty()) return false;
      const bool is_free = !is_limited(nodes_[at(i)]) || nodes_[at(i)].costs.size() == 1;
      if (is_free && (edges_of_[at(i)].size() <= 2 || nodes_[at(i)].costs.size() == 1)) {
        eliminate(i);
      }
    }
    return true;
  }

  bool compress() {
    // Nodes that are gone have left their usage behind.
    AssignmentProblem view{std::move(nodes_), {}, std::move(limits_)};
    const bool is_feasible = compress_usage(view, &result_.prices);
    nodes_ = std::move(view.nodes);
    limits_ = std::move(view.usage_limits);
    return is_feasible;
  }

  int other_end(std::size_t edge, int i) const {
    return edges_[edge].a == i ? edges_[edge].b : edges_[edge].a;
  }
  /// The edge's cost where node i takes s and the other end t.
  Cost pair_cost(std::size_t edge, int i, std::size_t s, std::size_t t) const {
    const Edge& e = edges_[edge];
    const std::size_t columns = nodes_[at(e.b)].costs.size();
    return e.a == i ? e.costs[s * columns + t] : e.costs[t * columns + s];
  }

  void add_edge(Edge edge) {
    const auto& smaller = edges_of_[at(edge.a)].size() < edges_of_[at(edge.b)].size()
                              ? edges_of_[at(edge.a)]
                              : edges_of_[at(edge.b)];
    for (const std::size_t k : smaller) {
      Edge& known = edges_[k];
      if (std::minmax(known.a, known.b) != std::minmax(edge.a, edge.b)) continue;
      const std::size_t columns = nodes_[at(edge.b)].costs.size();
      for (std::size_t s = 0; s < nodes_[at(edge.a)].costs.size(); ++s) {
        for (std::size_t t = 0; t < columns; ++t) {
          Cost& cost = known.costs[known.a == edge.a ? s * columns + t
                                                     : t * nodes_[at(edge.a)].costs.size() + s];
          cost = plus(cost, edge.costs[s * columns + t]);
        }
      }
      return;
    }
    edges_of_[at(edge.a)].push_back(edges_.size());
    edges_of_[at(edge.b)].push_back(edges_.size());
    edges_.push_back(std::move(edge));
  }

  /// Moves the least cost of each row and column into the nodes; an edge that is then 0 goes.
  void normalise(std::size_t k) {
    Edge& edge = edges_[k];
    const std::size_t rows = nodes_[at(edge.a)].costs.size();
    const std::size_t columns = nodes_[at(edge.b)].costs.size();
    const auto move_minima = [&](std::vector<Cost>& costs, std::size_t others, std::size_t step,
                                 std::size_t other_step) {
      for (std::size_t s = 0; s < costs.size(); ++s) {
        Cost least = impossible;
        for (std::size_t t = 0; t < others; ++t) {
          least = std::min(least, edge.costs[s * step + t * other_step]);
        }
        costs[s] = plus(costs[s], least);
        if (least >= impossible || least == 0) continue;
        for (std::size_t t = 0; t < others; ++t) {
          Cost& cost = edge.costs[s * step + t * other_step];
          if (cost < impossible) cost -= least;
        }
      }
    };
    move_minima(nodes_[at(edge.a)].costs, columns, columns, 1);
    move_minima(nodes_[at(edge.b)].costs, rows, 1, columns);
    if (std::ranges::all_of(edge.costs, [](Cost cost) { return cost == 0; })) detach(k);
  }

  void detach(std::size_t k) {
    std::erase(edges_of_[at(edges_[k].a)], k);
    std::erase(edges_of_[at(edges_[k].b)], k);
    edges_[k].costs = {};
  }

  void remove_useless_strategies(int i) {
    auto& node = nodes_[at(i)];
    std::vector<char> is_useless(node.costs.size());
    for (std::size_t s = 0; s < is_useless.size(); ++s) is_useless[s] = node.costs[s] >= impossible;
    double work = static_cast<double>(node.costs.size());
    for (const std::size_t k : edges_of_[at(i)])
      work += static_cast<double>(edges_[k].costs.size());
    if (work * static_cast<double>(node.costs.size()) <= most_comparisons) {
      for (std::size_t s = 0; s < is_useless.size(); ++s) {
        for (std::size_t t = 0; t < is_useless.size() && !is_useless[s]; ++t) {
          is_useless[s] = t != s && !is_useless[t] && dominates(i, t, s);
          if (is_useless[s]) replaced_by(i, s) = strategies_[at(i)][t];
        }
      }
    }
    if (std::ranges::none_of(is_useless, [](char useless) { return useless != 0; })) return;
    remove(i, is_useless);
  }

  int& replaced_by(int i, std::size_t s) {
    return result_.replacements[at(i)][at(strategies_[at(i)][s])];
  }

  bool dominates(int i, std::size_t better, std::size_t worse) const {
    const auto& node = nodes_[at(i)];
    if (is_limited(node) && node.usages[better] > node.usages[worse]) return false;
    Cost saved = node.costs[worse] - node.costs[better];  // at least, by taking the better one
    for (const std::size_t k : edges_of_[at(i)]) {
      const auto& others = nodes_[at(other_end(k, i))].costs;
      Cost least = impossible;
      for (std::size_t t = 0; t < others.size(); ++t) {
        const Cost cost = pair_cost(k, i, worse, t);
        if (cost >= impossible || others[t] >= impossible) continue;
        const Cost instead = pair_cost(k, i, better, t);
        if (instead >= impossible) return false;
        least = std::min(least, cost - instead);
      }
      if (least >= impossible) return true;  // the worse one has no partner
      saved += least;
    }
    return saved >= 0;
  }

  void remove(int i, const std::vector<char>& is_removed) {
    auto& node = nodes_[at(i)];
    for (const std::size_t k : edges_of_[at(i)]) {
      Edge& edge = edges_[k];
      const std::size_t columns = nodes_[at(edge.b)].costs.size();
      std::size_t kept = 0;
      for (std::size_t c = 0; c < edge.costs.size(); ++c) {
        if (!is_removed[edge.a == i ? c / columns : c % columns])
          edge.costs[kept++] = edge.costs[c];
      }
      edge.costs.resize(kept);
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
    filter(strategies_[at(i)]);
    if (node.costs.empty()) return;
    const std::vector<std::size_t> touched = edges_of_[at(i)];
    for (const std::size_t k : touched) normalise(k);
    enqueue(i);
  }

  /// Takes a node away whose usage does not depend on its choice. Of its neighbours there are two
  /// at most, or it has one strategy.
  void eliminate(int i) {
    const std::vector<std::size_t> edges = edges_of_[at(i)];
    Presolved::Elimination elimination{i, {}, {}};
    if (nodes_[at(i)].costs.size() == 1) {
      elimination.answers = {strategies_[at(i)].front()};
      result_.constant += nodes_[at(i)].costs.front();
      for (const std::size_t k : edges) {
        auto& costs = nodes_[at(other_end(k, i))].costs;
        for (std::size_t t = 0; t < costs.size(); ++t) {
          costs[t] = plus(costs[t], pair_cost(k, i, 0, t));
        }
      }
    } else if (edges.empty()) {
      const auto& costs = nodes_[at(i)].costs;
      const auto least = std::ranges::min_element(costs);
      elimination.answers = {strategies_[at(i)][static_cast<std::size_t>(least - costs.begin())]};
      result_.constant += *least;
    } else if (edges.size() == 1) {
      eliminate_leaf(i, edges[0], elimination);
    } else {
      eliminate_link(i, edges[0], edges[1], elimination);
    }
    for (const std::size_t k : edges) {
      enqueue(other_end(k, i));
      detach(k);
    }
    is_gone_[at(i)] = 1;
    result_.eliminations.push_back(std::move(elimination));
  }

  /// The edge's costs, rows by the other end's strategy, columns by node i's.
  std::vector<Cost> costs_towards(std::size_t k, int i) const {
    if (edges_[k].b == i) return edges_[k].costs;
    const std::size_t count = nodes_[at(i)].costs.size();
    const std::size_t others = edges_[k].costs.size() / count;
    std::vector<Cost> turned(edges_[k].costs.size());
    for (std::size_t s = 0; s < count; ++s) {
      for (std::size_t t = 0; t < others; ++t) {
        turned[t * count + s] = edges_[k].costs[s * others + t];
      }
    }
    return turned;
  }

  /// The least sum of two rows, `impossible` at most, and where it is. Costs are moderate, so that
  /// sums of a few stay far from overflow.
  static std::pair<Cost, std::size_t> least_sum(const std::vector<Cost>& a, const Cost* b) {
    Cost least = impossible;
    for (std::size_t s = 0; s < a.size(); ++s) least = std::min(least, a[s] + b[s]);
    std::size_t best = 0;
    while (best + 1 < a.size() && std::min(impossible, a[best] + b[best]) != least) ++best;
    return {least, best};
  }

  void eliminate_leaf(int i, std::size_t k, Presolved::Elimination& elimination) {
    const int j = other_end(k, i);
    elimination.neighbours = {j};
    elimination.answers.assign(at(result_.strategy_counts[at(j)]), 0);
    const std::vector<Cost> edge_costs = costs_towards(k, i);
    const auto& own = nodes_[at(i)].costs;
    auto& costs = nodes_[at(j)].costs;
    for (std::size_t t = 0; t < costs.size(); ++t) {
      const auto [least, s] = least_sum(own, &edge_costs[t * own.size()]);
      elimination.answers[at(strategies_[at(j)][t])] = strategies_[at(i)][s];
      costs[t] = plus(costs[t], least);
    }
  }

  void eliminate_link(int i, std::size_t k, std::size_t l, Presolved::Elimination& elimination) {
    Edge edge{other_end(k, i), other_end(l, i), {}};
    elimination.neighbours = {edge.a, edge.b};
    const std::size_t stride = at(result_.strategy_counts[at(edge.b)]);
    elimination.answers.assign(at(result_.strategy_counts[at(edge.a)]) * stride, 0);
    const auto& rows = strategies_[at(edge.a)];
    const auto& columns = strategies_[at(edge.b)];
    const std::vector<Cost> row_costs = costs_towards(k, i);
    const std::vector<Cost> column_costs = costs_towards(l, i);
    std::vector<Cost> beside(nodes_[at(i)].costs.size());
    edge.costs.reserve(rows.size() * columns.size());
    for (std::size_t t = 0; t < rows.size(); ++t) {
      for (std::size_t s = 0; s < beside.size(); ++s) {
        beside[s] = plus(nodes_[at(i)].costs[s], row_costs[t * beside.size() + s]);
      }
      for (std::size_t u = 0; u < columns.size(); ++u) {
        const auto [least, s] = least_sum(beside, &column_costs[u * beside.size()]);
        elimination.answers[at(rows[t]) * stride + at(columns[u])] = strategies_[at(i)][s];
        edge.costs.push_back(least);
      }
    }
    const int a = edge.a;
    const int b = edge.b;
    add_edge(std::move(edge));
    for (const std::size_t e : edges_of_[at(a)]) {
      if (other_end(e, a) != b) continue;
      normalise(e);
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
      result_.strategies.push_back(std::move(strategies_[i]));
      result_.core.nodes.push_back(std::move(nodes_[i]));
    }
    for (Edge& edge : edges_) {
      if (edge.costs.empty()) continue;
      result_.core.edges.push_back(
          {core_of[at(edge.a)], core_of[at(edge.b)], std::move(edge.costs)});
    }
    result_.core.usage_limits = std::move(limits_);
  }

  std::vector<AssignmentProblem::Node> nodes_;
  std::vector<std::int64_t> limits_;
  std::vector<Edge> edges_;  // one that is gone has no costs
  std::vector<std::vector<std::size_t>> edges_of_;
  std::vector<std::vector<int>> strategies_;
  std::vector<char> is_gone_;
  std::vector<char> is_queued_;
  std::deque<int> queue_;
  Presolved result_;
};

}  // namespace

std::vector<int> Presolved::original(const std::vector<int>& choice) const {
  std::vector<int> result(strategy_counts.size(), 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    result[at(nodes[i])] = strategies[i][at(choice[i])];
  }
  for (auto e = eliminations.rbegin(); e != eliminations.rend(); ++e) {
    std::size_t index = 0;
    for (const int j : e->neighbours) {
      index = index * at(strategy_counts[at(j)]) + at(result[at(j)]);
    }
    result[at(e->node)] = e->answers[index];
  }
  return result;
}

std::optional<std::vector<int>> Presolved::reduced(const std::vector<int>& choice) const {
  std::vector<int> result;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& replaced_by = replacements[at(nodes[i])];
    int strategy = choice[at(nodes[i])];
    while (replaced_by[at(strategy)] >= 0) strategy = replaced_by[at(strategy)];
    const auto found = std::ranges::find(strategies[i], strategy);
    if (found == strategies[i].end()) return std::nullopt;
    result.push_back(static_cast<int>(found - strategies[i].begin()));
  }
  return result;
}

std::optional<Presolved> presolve(AssignmentProblem problem, std::vector<double> prices) {
  if (!compress_usage(problem, &prices)) return std::nullopt;
  return Presolver(std::move(problem), std::move(prices)).run();
}

}  // namespace autopar::search
