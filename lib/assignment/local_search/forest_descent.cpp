// Descent by forests. A sweep draws a set of nodes without a cycle among them and chooses all of
// their strategies at once, exactly, by dynamic programming, while the others stay (Hamze and de
// Freitas 2004 sample so); on graphs that are nearly trees most nodes move together. Nodes that
// stayed in one sweep are the first to be taken in the next. Usage is priced: a unit at a time
// whose limit is exceeded costs more from round to round, and less again once the choice is within.

#include "assignment/local_search/forest_descent.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "assignment/elimination/elimination.h"
#include "assignment/saturating.h"

namespace autopar::assignment {

namespace {

constexpr std::size_t most_cells_of_a_table = 4'000'000;
constexpr int sweeps_a_round = 3;
constexpr int rounds_of_repair = 60;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Of a strategy of `node`, one of the edge's two, and one of the other.
Cost cost_across(const AssignmentProblem& problem, const AssignmentProblem::Edge& edge, int node,
                 std::size_t strategy, std::size_t other_strategy) {
  const std::size_t columns = problem.nodes[at(edge.b)].costs.size();
  return edge.a == node ? edge.costs[strategy * columns + other_strategy]
                        : edge.costs[other_strategy * columns + strategy];
}

void add_across(const AssignmentProblem& problem, const AssignmentProblem::Edge& edge, int node,
                int other_strategy, std::vector<Cost>& costs) {
  for (std::size_t s = 0; s < costs.size(); ++s) {
    costs[s] = plus(costs[s], cost_across(problem, edge, node, s, at(other_strategy)));
  }
}

class Descent {
 public:
  Descent(const AssignmentProblem& problem, std::vector<int> start)
      : problem_(problem),
        links_(problem.nodes.size()),
        choice_(std::move(start)),
        has_stayed_(problem.nodes.size(), 0),
        is_open_(problem.nodes.size(), 0),
        prices_(problem.usage_limits.size(), 0.0) {
    for (std::size_t e = 0; e < problem.edges.size(); ++e) {
      const auto& edge = problem.edges[e];
      links_[at(edge.a)].push_back({e, edge.b});
      links_[at(edge.b)].push_back({e, edge.a});
    }
  }

  std::optional<std::vector<int>> run(int rounds) {
    keep_if_best();
    for (int round = 0; round < rounds; ++round) {
      const Cost before = best_cost_;
      for (int sweep = 0; sweep < sweeps_a_round; ++sweep) {
        draw_forest();
        optimise_forest();
      }
      const bool is_within = keep_if_best();
      if (is_within && !is_priced_ && best_cost_ == before) break;
      update_prices();
    }
    return best_.empty() ? std::nullopt : std::optional(best_);
  }

 private:
  struct Link {
    std::size_t edge;
    int other;
  };
  /// A node of the forest. Edges to its parent, of which there may be several, are in its links.
  struct Place {
    int node;
    int parent;                ///< a node too; -1 for a root
    std::vector<int> answers;  ///< by the parent's strategy
  };

  bool keep_if_best() {
    if (!within_limits(problem_, choice_)) return false;
    const Cost cost = cost_of(problem_, choice_);
    if (cost < best_cost_) {
      best_cost_ = cost;
      best_ = choice_;
    }
    return cost < impossible;
  }

  int tree_of(int i) {
    while (tree_[at(i)] != i) i = tree_[at(i)] = tree_[at(tree_[at(i)])];
    return i;
  }

  void draw_forest() {
    std::vector<int> order(problem_.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    std::stable_partition(order.begin(), order.end(), [&](int i) { return has_stayed_[at(i)]; });
    std::ranges::fill(is_open_, 0);
    tree_.resize(order.size());
    std::iota(tree_.begin(), tree_.end(), 0);
    for (const int i : order) {
      std::vector<int> open;
      for (const Link& link : links_[at(i)]) {
        if (is_open_[at(link.other)]) open.push_back(link.other);
      }
      std::ranges::sort(open);
      open.erase(std::unique(open.begin(), open.end()), open.end());  // parallel edges are no cycle
      for (int& j : open) j = tree_of(j);
      std::ranges::sort(open);
      if (std::ranges::adjacent_find(open) != open.end()) continue;
      is_open_[at(i)] = 1;
      for (const int root : open) tree_[at(root)] = i;
    }
    for (std::size_t i = 0; i < is_open_.size(); ++i) has_stayed_[i] = !is_open_[i];
  }

  /// Parents before children.
  std::vector<Place> places_of_forest() const {
    std::vector<Place> places;
    std::vector<char> is_placed(links_.size(), 0);
    const auto place = [&](int node, int parent) {
      if (!is_open_[at(node)] || is_placed[at(node)]) return;
      is_placed[at(node)] = 1;
      places.push_back({node, parent, {}});
    };
    for (std::size_t root = 0; root < links_.size(); ++root) {
      std::size_t next = places.size();
      place(static_cast<int>(root), -1);
      for (; next < places.size(); ++next) {
        const int node = places[next].node;
        for (const Link& link : links_[at(node)]) place(link.other, node);
      }
    }
    return places;
  }

  void optimise_forest() {
    const std::vector<double> prices = cumulated_prices();
    std::vector<Place> places = places_of_forest();
    std::vector<std::vector<Cost>> costs(links_.size());  // with the best of the trees below
    for (const Place& place : places)
      costs[at(place.node)] = costs_beside_forest(place.node, prices);
    for (auto place = places.rbegin(); place != places.rend(); ++place) {
      if (place->parent >= 0) answer_parent(*place, costs);
    }
    for (const Place& place : places) {
      const std::vector<Cost>& own = costs[at(place.node)];
      choice_[at(place.node)] = place.parent < 0
                                    ? static_cast<int>(std::ranges::min_element(own) - own.begin())
                                    : place.answers[at(choice_[at(place.parent)])];
    }
  }

  /// By strategy: its own, its usage, and its edges to nodes that stay.
  std::vector<Cost> costs_beside_forest(int i, const std::vector<double>& prices) const {
    const auto& node = problem_.nodes[at(i)];
    std::vector<Cost> costs = node.costs;
    const double price = prices[std::min(at(node.end), prices.size() - 1)] -
                         prices[std::min(at(node.first), prices.size() - 1)];
    for (std::size_t s = 0; s < costs.size(); ++s) {
      const double paid = price * static_cast<double>(node.usages[s]);
      costs[s] = plus(costs[s], static_cast<Cost>(std::min(paid, most_paid)));
    }
    for (const Link& link : links_[at(i)]) {
      if (is_open_[at(link.other)]) continue;
      add_across(problem_, problem_.edges[link.edge], i, choice_[at(link.other)], costs);
    }
    return costs;
  }

  void answer_parent(Place& place, std::vector<std::vector<Cost>>& costs) const {
    std::vector<Cost>& parents = costs[at(place.parent)];
    for (std::size_t t = 0; t < parents.size(); ++t) {
      std::vector<Cost> sums = costs[at(place.node)];
      for (const Link& link : links_[at(place.node)]) {
        if (link.other != place.parent) continue;
        add_across(problem_, problem_.edges[link.edge], place.node, static_cast<int>(t), sums);
      }
      const auto least = std::ranges::min_element(sums);
      place.answers.push_back(static_cast<int>(least - sums.begin()));
      parents[t] = plus(parents[t], *least);
    }
  }

  /// What a unit costs from time 0 to each time.
  std::vector<double> cumulated_prices() const {
    std::vector<double> result(prices_.size() + 1, 0.0);
    std::partial_sum(prices_.begin(), prices_.end(), result.begin() + 1);
    return result;
  }

  void update_prices() {
    const std::vector<std::int64_t> usage = usage_over_time(problem_, choice_);
    const double cost = static_cast<double>(cost_of(problem_, choice_));
    for (std::size_t t = 0; t < prices_.size() && t < usage.size(); ++t) {
      const std::int64_t limit = problem_.usage_limits[t];
      if (limit < 0) continue;
      if (usage[t] <= limit) {
        prices_[t] *= 0.8;
        continue;
      }
      is_priced_ = true;
      const double unit = cost / (1000.0 * static_cast<double>(std::max<std::int64_t>(limit, 1)));
      prices_[t] = std::max(prices_[t] * 1.5, unit);
    }
  }

  static constexpr double most_paid = 1e15;

  const AssignmentProblem& problem_;
  std::vector<std::vector<Link>> links_;
  std::vector<int> choice_;
  std::vector<int> best_;
  Cost best_cost_ = impossible;
  std::vector<char> has_stayed_;
  std::vector<char> is_open_;  // in the forest
  std::vector<int> tree_;
  std::mt19937 random_;         // of a fixed seed
  std::vector<double> prices_;  // by time, cost a unit of usage
  bool is_priced_ = false;
};

}  // namespace

std::optional<std::vector<int>> descend(const AssignmentProblem& problem, std::vector<int> start,
                                        int rounds) {
  return Descent(problem, std::move(start)).run(rounds);
}

std::optional<std::vector<int>> complete(const AssignmentProblem& problem,
                                         const std::vector<int>& choice, int num_fixed) {
  AssignmentProblem open;  // fixed edges go into the nodes' costs
  for (std::size_t i = at(num_fixed); i < problem.nodes.size(); ++i) {
    open.nodes.push_back(problem.nodes[i]);
  }
  for (const auto& edge : problem.edges) {
    const int a = edge.a - num_fixed;
    const int b = edge.b - num_fixed;
    if (a >= 0 && b >= 0) {
      open.edges.push_back({a, b, edge.costs});
    } else if (a >= 0) {
      add_across(problem, edge, edge.a, choice[at(edge.b)], open.nodes[at(a)].costs);
    } else if (b >= 0) {
      add_across(problem, edge, edge.b, choice[at(edge.a)], open.nodes[at(b)].costs);
    }
  }
  const auto found = choose_by_elimination(open, most_cells_of_a_table);
  if (!found) return std::nullopt;
  std::vector<int> result = choice;
  std::ranges::copy(*found, result.begin() + num_fixed);
  if (cost_of(problem, result) >= impossible) return std::nullopt;
  return result;
}

std::optional<std::vector<int>> settle(const AssignmentProblem& problem,
                                       const AssignmentProblem& narrowed,
                                       const std::vector<int>& choice, int num_fixed) {
  const auto free = complete(problem, choice, num_fixed);
  if (free && within_limits(problem, *free)) return free;
  const auto narrow = complete(narrowed, choice, num_fixed);
  if (narrow && within_limits(problem, *narrow)) return narrow;
  if (narrow) {
    if (auto repaired = descend(narrowed, *narrow, rounds_of_repair)) return repaired;
  }
  return free ? descend(problem, *free, rounds_of_repair) : std::nullopt;
}

}  // namespace autopar::assignment
