// Descent by forests. A sweep draws a set of nodes without a cycle among them and chooses all of
// their strategies at once, exactly, while the others stay (Hamze and de Freitas 2004 sample so);
// on graphs that are nearly trees most nodes move together. Nodes that stayed in one sweep are the
// first to be taken in the next. Usage is priced: a unit at a time whose limit is exceeded costs
// more from round to round, and less again once the choice is within.

#include "search/forest_descent.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "search/elimination.h"
#include "search/saturating.h"

namespace autopar::search {

namespace {

constexpr std::size_t most_cells_of_a_table = 4'000'000;
constexpr int sweeps_a_round = 3;
constexpr int rounds_of_repair = 60;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// A problem with some nodes fixed: the others, with the edges to fixed ones in their costs.
class OpenPart {
 public:
  OpenPart(const AssignmentProblem& problem, const std::vector<char>& is_open)
      : index_(problem.nodes.size(), -1) {
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      if (!is_open[i]) continue;
      index_[i] = static_cast<int>(nodes_.size());
      nodes_.push_back(static_cast<int>(i));
    }
  }

  /// Moves the open nodes of `choice`; `prices` by time, cumulated. False where nothing is
  /// possible.
  bool optimise(const AssignmentProblem& problem, const std::vector<double>& prices,
                std::vector<int>& choice) const {
    AssignmentProblem part;
    for (const int i : nodes_) {
      auto& node = part.nodes.emplace_back();
      node.costs = problem.nodes[at(i)].costs;
      add_price(problem.nodes[at(i)], prices, node.costs);
      node.usages.assign(node.costs.size(), 0);
    }
    for (const auto& edge : problem.edges) {
      const int a = index_[at(edge.a)];
      const int b = index_[at(edge.b)];
      const std::size_t columns = problem.nodes[at(edge.b)].costs.size();
      if (a >= 0 && b >= 0) {
        part.edges.push_back({a, b, edge.costs});
      } else if (a >= 0) {
        auto& costs = part.nodes[at(a)].costs;
        for (std::size_t s = 0; s < costs.size(); ++s) {
          costs[s] = plus(costs[s], edge.costs[s * columns + at(choice[at(edge.b)])]);
        }
      } else if (b >= 0) {
        auto& costs = part.nodes[at(b)].costs;
        for (std::size_t s = 0; s < columns; ++s) {
          costs[s] = plus(costs[s], edge.costs[at(choice[at(edge.a)]) * columns + s]);
        }
      }
    }
    const auto found = choose_by_elimination(part, most_cells_of_a_table);
    if (!found) return false;
    for (std::size_t k = 0; k < nodes_.size(); ++k) choice[at(nodes_[k])] = (*found)[k];
    return true;
  }

 private:
  static void add_price(const AssignmentProblem::Node& node, const std::vector<double>& prices,
                        std::vector<Cost>& costs) {
    if (prices.empty()) return;
    const auto until = [&](int t) { return prices[std::min(at(t), prices.size() - 1)]; };
    const double price = until(node.end) - until(node.first);
    for (std::size_t s = 0; s < costs.size(); ++s) {
      const double paid = price * static_cast<double>(node.usages[s]);
      costs[s] = plus(costs[s], static_cast<Cost>(std::min(paid, 1e15)));
    }
  }

  std::vector<int> index_;  // by the problem's node, -1 for fixed ones
  std::vector<int> nodes_;
};

class Descent {
 public:
  Descent(const AssignmentProblem& problem, std::vector<int> start)
      : problem_(problem),
        neighbours_(problem.nodes.size()),
        choice_(std::move(start)),
        has_stayed_(problem.nodes.size(), 0),
        prices_(problem.usage_limits.size(), 0.0) {
    for (const auto& edge : problem.edges) {
      neighbours_[at(edge.a)].push_back(edge.b);
      neighbours_[at(edge.b)].push_back(edge.a);
    }
  }

  std::optional<std::vector<int>> run(int rounds) {
    keep_if_best();
    for (int round = 0; round < rounds; ++round) {
      const Cost before = best_cost_;
      for (int sweep = 0; sweep < sweeps_a_round; ++sweep) {
        OpenPart(problem_, draw_forest()).optimise(problem_, cumulated(), choice_);
      }
      const bool is_within = keep_if_best();
      if (is_within && !is_priced_ && best_cost_ == before) break;
      update_prices();
    }
    return best_.empty() ? std::nullopt : std::optional(best_);
  }

 private:
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

  std::vector<char> draw_forest() {
    std::vector<int> order(problem_.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    std::stable_partition(order.begin(), order.end(), [&](int i) { return has_stayed_[at(i)]; });
    std::vector<char> is_open(order.size(), 0);
    tree_.resize(order.size());
    std::iota(tree_.begin(), tree_.end(), 0);
    for (const int i : order) {
      std::vector<int> open = neighbours_[at(i)];
      std::erase_if(open, [&](int j) { return !is_open[at(j)]; });
      std::ranges::sort(open);
      open.erase(std::unique(open.begin(), open.end()), open.end());  // parallel edges are no cycle
      for (int& j : open) j = tree_of(j);
      std::ranges::sort(open);
      if (std::ranges::adjacent_find(open) != open.end()) continue;
      is_open[at(i)] = 1;
      for (const int root : open) tree_[at(root)] = i;
    }
    for (std::size_t i = 0; i < is_open.size(); ++i) has_stayed_[i] = !is_open[i];
    return is_open;
  }

  std::vector<double> cumulated() const {
    if (!is_priced_) return {};
    std::vector<double> result(prices_.size() + 1, 0.0);
    std::partial_sum(prices_.begin(), prices_.end(), result.begin() + 1);
    return result;
  }

  void update_prices() {
    const std::vector<std::int64_t> usage = usage_over_time(problem_, choice_);
    for (std::size_t t = 0; t < prices_.size() && t < usage.size(); ++t) {
      const std::int64_t limit = problem_.usage_limits[t];
      if (limit < 0) continue;
      if (usage[t] <= limit) {
        prices_[t] *= 0.8;
        continue;
      }
      is_priced_ = true;
      const double unit = static_cast<double>(cost_of(problem_, choice_)) /
                          (1000.0 * static_cast<double>(std::max<std::int64_t>(limit, 1)));
      prices_[t] = std::max(prices_[t] * 1.5, unit);
    }
  }

  const AssignmentProblem& problem_;
  std::vector<std::vector<int>> neighbours_;
  std::vector<int> choice_;
  std::vector<int> best_;
  Cost best_cost_ = impossible;
  std::vector<char> has_stayed_;
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
  std::vector<char> is_open(problem.nodes.size(), 1);
  std::fill_n(is_open.begin(), num_fixed, 0);
  std::vector<int> result = choice;
  if (!OpenPart(problem, is_open).optimise(problem, {}, result)) return std::nullopt;
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

}  // namespace autopar::search
