// Local search by blocks that are optimised exactly. A sweep draws a set of nodes that induces a
// forest and chooses all of their strategies at once by dynamic programming, the other nodes
// staying as they are; on graphs that are nearly trees, as models are, most nodes move together.
// A limit is kept by multipliers: a unit of usage at time t costs `multipliers_[t]`, which grows
// while the usage exceeds the limit and shrinks otherwise (Lagrangian relaxation). The cheapest
// choice within the limits that was seen is then improved by single moves that keep the limits.

#include <algorithm>
#include <numeric>
#include <random>

#include "search/assignment_problem.h"
#include "search/reduced_problem.h"

namespace autopar::search {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Disjoint sets of nodes, for keeping a forest free of cycles.
class UnionFind {
 public:
  explicit UnionFind(std::size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int find(int node) {
    while (parent_[at(node)] != node) {
      parent_[at(node)] = parent_[at(parent_[at(node)])];
      node = parent_[at(node)];
    }
    return node;
  }
  void join(int a, int b) { parent_[at(find(a))] = find(b); }

 private:
  std::vector<int> parent_;
};

class LocalSearch {
 public:
  LocalSearch(const AssignmentProblem& problem, const ReducedProblem& reduced)
      : problem_(problem),
        reduced_(reduced),
        edges_of_(reduced.nodes.size()),
        choice_(reduced.nodes.size(), 0),
        order_(reduced.nodes.size()),
        multipliers_(problem.usage_limits.size(), 0.0) {
    std::iota(order_.begin(), order_.end(), 0);
    for (std::size_t k = 0; k < reduced.edges.size(); ++k) {
      edges_of_[at(reduced.edges[k].a)].push_back(k);
      edges_of_[at(reduced.edges[k].b)].push_back(k);
      work_of_sweep_ += static_cast<double>(reduced.edges[k].costs.size());
    }
    for (const auto& node : reduced.nodes) work_of_sweep_ += static_cast<double>(node.costs.size());
  }

  std::optional<std::vector<int>> run() {
    const int rounds = std::clamp(static_cast<int>(4e7 / (4 * work_of_sweep_ + 1)), 8, 60);
    int feasible_rounds = 0;
    for (int round = 0; round < rounds; ++round) {
      for (int sweep = 0; sweep < (round == 0 ? 6 : 4); ++sweep)
        optimise_random_forest(round + sweep == 0);
      const bool is_within = keep_if_best();
      feasible_rounds += is_within ? 1 : 0;
      if (is_within && !has_multipliers_ && feasible_rounds > 4) break;
      update_multipliers(is_within);
    }
    if (!best_.empty()) improve_by_single_moves();
    return best_.empty() ? std::nullopt : std::optional(reduced_.original(best_));
  }

 private:
  double usage_price(const ReducedProblem::Node& node) const {
    if (!has_multipliers_) return 0;
    const std::size_t last = price_until_.size() - 1;
    return price_until_[std::min(at(node.end), last)] -
           price_until_[std::min(at(node.first), last)];
  }

  /// Optimises a random induced forest exactly. In the first sweep the nodes outside it count for
  /// nothing, since their strategies mean nothing yet.
  void optimise_random_forest(bool is_first) {
    draw_forest();
    // Costs by strategy: own, usage, and edges to the nodes that stay.
    std::vector<std::vector<double>> costs(forest_.size());
    for (std::size_t k = 0; k < forest_.size(); ++k) {
      const int i = forest_[k];
      const auto& node = reduced_.nodes[at(i)];
      const double price = usage_price(node);
      for (std::size_t s = 0; s < node.costs.size(); ++s) {
        costs[k].push_back(static_cast<double>(node.costs[s]) +
                           price * static_cast<double>(node.usages[s]));
      }
      if (is_first) continue;
      for (const std::size_t e : edges_of_[at(i)]) add_fixed_edge(reduced_.edges[e], i, costs[k]);
    }
    // Leaves to roots: each child's best answer to its parent's class.
    std::vector<std::vector<int>> answers(forest_.size());  // by the parent's class
    for (std::size_t k = forest_.size(); k-- > 0;) {
      if (parent_edge_[k] == no_edge) continue;
      const ReducedProblem::Edge& edge = reduced_.edges[parent_edge_[k]];
      const int parent = edge.a == forest_[k] ? edge.b : edge.a;
      add_message(edge, forest_[k], costs[k], answers[k], costs[position_[at(parent)]]);
    }
    for (std::size_t k = 0; k < forest_.size(); ++k) {
      const int i = forest_[k];
      if (parent_edge_[k] == no_edge) {
        choice_[at(i)] = static_cast<int>(std::ranges::min_element(costs[k]) - costs[k].begin());
        continue;
      }
      const ReducedProblem::Edge& edge = reduced_.edges[parent_edge_[k]];
      const bool is_a = edge.a == i;
      const int parent = is_a ? edge.b : edge.a;
      const auto& parent_class = is_a ? edge.class_of_b : edge.class_of_a;
      choice_[at(i)] = answers[k][at(parent_class[at(choice_[at(parent)])])];
    }
  }

  /// Fills forest_ with a random order's maximal set of nodes without a cycle, parents before
  /// children. Nodes that were left out last time come first.
  void draw_forest() {
    std::shuffle(order_.begin(), order_.end(), random_);
    std::stable_partition(order_.begin(), order_.end(),
                          [&](int i) { return left_out_.size() && left_out_[at(i)]; });
    left_out_.assign(reduced_.nodes.size(), 1);
    UnionFind trees(reduced_.nodes.size());
    for (const int i : order_) {
      std::vector<int> roots;
      for (const std::size_t e : edges_of_[at(i)]) {
        const int j = other_end(e, i);
        if (!left_out_[at(j)]) roots.push_back(trees.find(j));
      }
      std::ranges::sort(roots);
      if (std::ranges::adjacent_find(roots) != roots.end()) continue;
      left_out_[at(i)] = 0;
      for (const int root : roots) trees.join(root, i);
    }

    forest_.clear();
    parent_edge_.clear();
    position_.assign(reduced_.nodes.size(), unplaced);
    const auto place = [&](int i, std::size_t edge) {
      position_[at(i)] = forest_.size();
      forest_.push_back(i);
      parent_edge_.push_back(edge);
    };
    for (const int root : order_) {
      if (left_out_[at(root)] || position_[at(root)] != unplaced) continue;
      std::size_t next = forest_.size();
      place(root, no_edge);
      for (; next < forest_.size(); ++next) {
        const int i = forest_[next];
        for (const std::size_t e : edges_of_[at(i)]) {
          const int j = other_end(e, i);
          if (!left_out_[at(j)] && position_[at(j)] == unplaced) place(j, e);
        }
      }
    }
  }

  int other_end(std::size_t edge, int node) const {
    return reduced_.edges[edge].a == node ? reduced_.edges[edge].b : reduced_.edges[edge].a;
  }

  void add_fixed_edge(const ReducedProblem::Edge& edge, int node,
                      std::vector<double>& costs) const {
    const bool is_a = edge.a == node;
    const int other = is_a ? edge.b : edge.a;
    if (!left_out_[at(other)]) return;
    for (std::size_t s = 0; s < costs.size(); ++s) {
      const int class_a = edge.class_of_a[at(is_a ? static_cast<int>(s) : choice_[at(other)])];
      const int class_b = edge.class_of_b[at(is_a ? choice_[at(other)] : static_cast<int>(s))];
      costs[s] += static_cast<double>(edge.cost(class_a, class_b));
    }
  }

  void add_message(const ReducedProblem::Edge& edge, int child, const std::vector<double>& costs,
                   std::vector<int>& answers, std::vector<double>& parent_costs) const {
    const bool child_is_a = edge.a == child;
    const auto& child_class = child_is_a ? edge.class_of_a : edge.class_of_b;
    const auto& parent_class = child_is_a ? edge.class_of_b : edge.class_of_a;
    const int child_classes = child_is_a ? edge.classes_of_a : edge.classes_of_b;
    const int parent_classes = child_is_a ? edge.classes_of_b : edge.classes_of_a;

    std::vector<int> best_of_class(at(child_classes), -1);
    for (std::size_t s = 0; s < costs.size(); ++s) {
      int& best = best_of_class[at(child_class[s])];
      if (best < 0 || costs[s] < costs[at(best)]) best = static_cast<int>(s);
    }
    std::vector<double> message;
    for (int u = 0; u < parent_classes; ++u) {
      int answer = -1;
      double least = 0;
      for (int v = 0; v < child_classes; ++v) {
        const int s = best_of_class[at(v)];
        const Cost pair = child_is_a ? edge.cost(v, u) : edge.cost(u, v);
        const double cost = costs[at(s)] + static_cast<double>(pair);
        if (answer >= 0 && cost >= least) continue;
        answer = s;
        least = cost;
      }
      answers.push_back(answer);
      message.push_back(least);
    }
    for (std::size_t t = 0; t < parent_costs.size(); ++t) {
      parent_costs[t] += message[at(parent_class[t])];
    }
  }

  /// True where the present choice is possible and within the limits.
  bool keep_if_best() {
    const std::vector<int> original = reduced_.original(choice_);
    const Cost cost = cost_of(problem_, original);
    scale_ = std::max(scale_, cost < impossible ? static_cast<double>(cost) : 0.0);
    if (cost >= impossible || !within_limits(problem_, original)) return false;
    if (best_.empty() || cost < best_cost_) {
      best_ = choice_;
      best_cost_ = cost;
    }
    return true;
  }

  void update_multipliers(bool is_within) {
    if (is_within) {
      for (double& multiplier : multipliers_) multiplier *= 0.7;
      step_ = std::max(step_ * 0.5, 1e-4);
    } else {
      const std::vector<std::int64_t> usage = usage_over_time(problem_, reduced_.original(choice_));
      for (std::size_t t = 0; t < multipliers_.size(); ++t) {
        const std::int64_t limit = problem_.usage_limits[t];
        if (limit < 0 || usage[t] <= limit) continue;
        const double whole = static_cast<double>(std::max<std::int64_t>(limit, 1));
        multipliers_[t] += step_ * (scale_ + 1) / whole;
        has_multipliers_ = true;
      }
      step_ *= 1.5;
    }
    price_until_.assign(multipliers_.size() + 1, 0.0);
    std::inclusive_scan(multipliers_.begin(), multipliers_.end(), price_until_.begin() + 1);
  }

  /// Moves one node at a time to a cheaper strategy while that keeps possible and within limits.
  void improve_by_single_moves() {
    choice_ = best_;
    std::vector<std::int64_t> usage = usage_over_time(problem_, reduced_.original(choice_));
    bool improved = true;
    for (int pass = 0; pass < 20 && improved; ++pass) {
      improved = false;
      for (std::size_t i = 0; i < reduced_.nodes.size(); ++i) {
        const int better = best_move(static_cast<int>(i), usage);
        if (better == choice_[i]) continue;
        const auto& node = reduced_.nodes[i];
        for (int t = node.first; t < node.end; ++t) {
          usage[at(t)] += node.usages[at(better)] - node.usages[at(choice_[i])];
        }
        choice_[i] = better;
        improved = true;
      }
    }
    keep_if_best();
  }

  int best_move(int i, const std::vector<std::int64_t>& usage) const {
    const auto& node = reduced_.nodes[at(i)];
    const auto cost = [&](int s) {
      WideCost sum = node.costs[at(s)];
      for (const std::size_t e : edges_of_[at(i)]) {
        const auto& edge = reduced_.edges[e];
        const int a = edge.a == i ? s : choice_[at(edge.a)];
        const int b = edge.b == i ? s : choice_[at(edge.b)];
        sum += edge.cost(edge.class_of_a[at(a)], edge.class_of_b[at(b)]);
      }
      return sum;
    };
    const auto fits = [&](int s) {
      const std::int64_t more = node.usages[at(s)] - node.usages[at(choice_[at(i)])];
      if (more <= 0) return true;
      const int end = std::min(node.end, static_cast<int>(problem_.usage_limits.size()));
      for (int t = node.first; t < end; ++t) {
        const std::int64_t limit = problem_.usage_limits[at(t)];
        if (limit >= 0 && usage[at(t)] + more > limit) return false;
      }
      return true;
    };
    int best = choice_[at(i)];
    WideCost best_cost = cost(best);
    for (int s = 0; s < static_cast<int>(node.costs.size()); ++s) {
      const WideCost candidate = cost(s);
      if (candidate >= best_cost || !fits(s)) continue;
      best = s;
      best_cost = candidate;
    }
    return best;
  }

  static constexpr std::size_t no_edge = static_cast<std::size_t>(-1);
  static constexpr std::size_t unplaced = static_cast<std::size_t>(-1);

  const AssignmentProblem& problem_;
  const ReducedProblem& reduced_;
  std::vector<std::vector<std::size_t>> edges_of_;
  std::vector<int> choice_;
  std::vector<int> best_;
  Cost best_cost_ = impossible;

  std::mt19937 random_{1};
  std::vector<int> order_;
  std::vector<char> left_out_;
  std::vector<int> forest_;               // parents before children
  std::vector<std::size_t> parent_edge_;  // by position in forest_
  std::vector<std::size_t> position_;     // by node

  std::vector<double> multipliers_;  // by time
  std::vector<double> price_until_;  // sums of multipliers before each time
  bool has_multipliers_ = false;
  double step_ = 1e-2;
  double scale_ = 0;
  double work_of_sweep_ = 0;
};

}  // namespace

std::optional<std::vector<int>> find_by_local_search(const AssignmentProblem& problem) {
  check(problem);
  const std::optional<ReducedProblem> reduced = reduce(problem);
  return reduced ? LocalSearch(problem, *reduced).run() : std::nullopt;
}

}  // namespace autopar::search
