// Bucket elimination with sets of labels for costs (Rollon and Larrosa 2006): a table has, by the
// strategies of a node's neighbours, all undominated pairs of cost and usage of what was eliminated
// behind it. Labels go as in constrained shortest paths (Dumitrescu and Boland 2003): under prices
// on usage, elimination without labels tells exactly what a label's completion pays at least, and a
// label that cannot lead below the goal is dropped.

#include "search/limited_elimination.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <set>
#include <span>

#include "search/labels.h"
#include "search/saturating.h"
#include "search/usage_rows.h"

namespace autopar::search {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double infinite = std::numeric_limits<double>::infinity();
/// Bounds in doubles may be off by this part.
constexpr double rounding = 1e-11;

constexpr std::size_t most_limits_at_first = 2;
constexpr std::size_t most_limits = 5;

class Elimination {
 public:
  Elimination(const AssignmentProblem& problem, const LimitedEliminationOptions& options)
      : problem_(problem), options_(options), labels_(problem, options) {}

  LimitedElimination run() {
    choose_order();
    bound_priced();
    LimitedElimination result;
    const double bound = total_ - limits_price();
    result.bound = static_cast<Cost>(
        std::clamp(std::ceil(bound - rounding * (std::abs(bound) + std::abs(total_))), 0.0,
                   static_cast<double>(impossible)));
    result.bound = std::min(result.bound, options_.goal);
    if (result.bound >= options_.goal) return result;
    labels_.set_goal(static_cast<double>(options_.goal - 1) + limits_price());
    const std::vector<Label> finals = run_labels();
    result.bound = options_.goal;
    if (finals.empty()) return result;
    const auto best =
        *std::ranges::min_element(finals, {}, [&](Label label) { return labels_.cost(label); });
    std::vector<int> choice(problem_.nodes.size(), 0);
    labels_.trace(best, choice);
    result.bound = std::min(options_.goal, labels_.cost(best));
    if (cost_of(problem_, choice) < options_.goal) result.choice = std::move(choice);
    return result;
  }

 private:
  /// A node that goes, and the tables that go with it.
  struct Bucket {
    int node = 0;
    std::vector<int> nodes;                 ///< its neighbours then, and the node last
    std::vector<std::size_t> edges;         ///< of the problem
    std::vector<std::size_t> children;      ///< buckets whose tables go in here
    std::vector<double> joint;              ///< what its cells pay at least, of what is behind
    std::vector<double> message;            ///< the least of it by the neighbours' strategies
    std::vector<double> completion;         ///< by the same, what the rest pays at least
    std::vector<std::vector<Label>> lists;  ///< by the same
  };

  std::size_t strategies(int i) const { return problem_.nodes[at(i)].costs.size(); }

  std::span<const int> separator(const Bucket& bucket) const {
    return std::span(bucket.nodes).first(bucket.nodes.size() - 1);
  }

  double limits_price() const {
    double sum = 0;
    for (std::size_t t = 0; t < options_.prices.size(); ++t) {
      sum += options_.prices[t] * static_cast<double>(problem_.usage_limits[t]);
    }
    return sum;
  }

  void choose_order() {
    const std::size_t count = problem_.nodes.size();
    std::vector<std::set<int>> neighbours(count);
    std::vector<std::vector<std::size_t>> edges(count);
    std::vector<std::vector<std::size_t>> children(count);
    std::vector<char> is_gone(count, 0);
    for (std::size_t k = 0; k < problem_.edges.size(); ++k) {
      const auto& edge = problem_.edges[k];
      neighbours[at(edge.a)].insert(edge.b);
      neighbours[at(edge.b)].insert(edge.a);
      edges[at(edge.a)].push_back(k);
      edges[at(edge.b)].push_back(k);
    }
    const auto cells_of = [&](int i) {
      double cells = static_cast<double>(strategies(i));
      for (const int j : neighbours[at(i)]) cells *= static_cast<double>(strategies(j));
      return cells;
    };
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (std::size_t i = 0; i < count; ++i) {
      queue.emplace(cells_of(static_cast<int>(i)), static_cast<int>(i));
    }
    double cells_left = options_.most_cells;
    while (!queue.empty()) {
      const auto [cells, i] = queue.top();
      queue.pop();
      if (is_gone[at(i)]) continue;
      if (options_.deadline.is_over()) throw GaveUp();
      if (const double now = cells_of(i); now > cells) {
        queue.emplace(now, i);
        continue;
      }
      cells_left -= cells;
      if (cells_left < 0) throw GaveUp();
      is_gone[at(i)] = 1;
      Bucket bucket;
      bucket.node = i;
      bucket.nodes.assign(neighbours[at(i)].begin(), neighbours[at(i)].end());
      bucket.nodes.push_back(i);
      for (const std::size_t k : edges[at(i)]) {
        const auto& edge = problem_.edges[k];
        if (!is_gone[at(edge.a == i ? edge.b : edge.a)]) bucket.edges.push_back(k);
      }
      bucket.children = std::move(children[at(i)]);
      // Its table goes where the first of its neighbours goes; that is known then.
      for (const int j : separator(bucket)) {
        neighbours[at(j)].erase(i);
        for (const int k : separator(bucket)) {
          if (j != k) neighbours[at(j)].insert(k);
        }
        children[at(j)].push_back(buckets_.size());
        queue.emplace(cells_of(j), j);
      }
      // The others no longer wait for the tables that went in here.
      for (const std::size_t child : bucket.children) {
        for (const int j : separator(buckets_[child])) {
          if (j != i) std::erase(children[at(j)], child);
        }
      }
      if (bucket.nodes.size() == 1) roots_.push_back(buckets_.size());
      buckets_.push_back(std::move(bucket));
    }
  }

  /// Calls visit(cell, indices): for each cell over `nodes`, where it lies in tables over subsets
  /// of them.
  template <typename Visit>
  void for_each_cell(const std::vector<int>& nodes, const std::vector<std::vector<int>>& tables,
                     const Visit& visit) const {
    std::vector<std::vector<std::size_t>> strides(nodes.size(),
                                                  std::vector<std::size_t>(tables.size(), 0));
    std::size_t cells = 1;
    for (const int i : nodes) cells *= strategies(i);
    for (std::size_t table = 0; table < tables.size(); ++table) {
      std::size_t stride = 1;
      for (std::size_t k = tables[table].size(); k-- > 0;) {
        const auto place = std::ranges::find(nodes, tables[table][k]) - nodes.begin();
        strides[static_cast<std::size_t>(place)][table] = stride;
        stride *= strategies(tables[table][k]);
      }
    }
    std::vector<std::size_t> digits(nodes.size(), 0);
    std::vector<std::size_t> indices(tables.size(), 0);
    for (std::size_t cell = 0; cell < cells; ++cell) {
      visit(cell, indices, digits);
      for (std::size_t k = nodes.size(); k-- > 0;) {
        for (std::size_t table = 0; table < tables.size(); ++table) {
          indices[table] += strides[k][table];
        }
        if (++digits[k] < strategies(nodes[k])) break;
        for (std::size_t table = 0; table < tables.size(); ++table) {
          indices[table] -= strides[k][table] * digits[k];
        }
        digits[k] = 0;
      }
    }
  }

  /// The tables that meet in a bucket: first the edges', then the children's.
  std::vector<std::vector<int>> tables_of(const Bucket& bucket) const {
    std::vector<std::vector<int>> tables;
    for (const std::size_t k : bucket.edges) {
      tables.emplace_back(std::vector{problem_.edges[k].a, problem_.edges[k].b});
    }
    for (const std::size_t child : bucket.children) {
      const auto nodes = separator(buckets_[child]);
      tables.emplace_back(nodes.begin(), nodes.end());
    }
    return tables;
  }

  double priced_cost(int i, std::size_t s) const {
    const auto& node = problem_.nodes[at(i)];
    if (node.costs[s] >= impossible) return infinite;
    double sum = static_cast<double>(node.costs[s]);
    for (int t = node.first; t < node.end; ++t) {
      sum += options_.prices[at(t)] * static_cast<double>(node.usages[s]);
    }
    return sum;
  }

  static double as_double(Cost cost) {
    return cost >= impossible ? infinite : static_cast<double>(cost);
  }

  void bound_priced() {
    for (Bucket& bucket : buckets_) {
      if (options_.deadline.is_over()) throw GaveUp();
      const std::size_t own = strategies(bucket.node);
      std::vector<double> own_costs;
      for (std::size_t s = 0; s < own; ++s) own_costs.push_back(priced_cost(bucket.node, s));
      for_each_cell(bucket.nodes, tables_of(bucket),
                    [&](std::size_t, const auto& indices, const auto& digits) {
                      double sum = own_costs[digits.back()];
                      std::size_t table = 0;
                      for (const std::size_t k : bucket.edges) {
                        sum += as_double(problem_.edges[k].costs[indices[table++]]);
                      }
                      for (const std::size_t child : bucket.children) {
                        sum += buckets_[child].message[indices[table++]];
                      }
                      bucket.joint.push_back(sum);
                    });
      for (std::size_t cell = 0; cell < bucket.joint.size(); cell += own) {
        bucket.message.push_back(
            *std::min_element(bucket.joint.begin() + static_cast<std::ptrdiff_t>(cell),
                              bucket.joint.begin() + static_cast<std::ptrdiff_t>(cell + own)));
      }
    }
    total_ = 0;
    for (const std::size_t root : roots_) total_ += buckets_[root].message.front();
    for (const std::size_t root : roots_) {
      buckets_[root].completion = {total_ - buckets_[root].message.front()};
    }
    for (std::size_t k = buckets_.size(); k-- > 0;) complete_children(buckets_[k]);
  }

  /// What the rest pays, by the strategies in the children's tables.
  void complete_children(const Bucket& bucket) {
    for (const std::size_t child : bucket.children) {
      buckets_[child].completion.assign(buckets_[child].message.size(), infinite);
    }
    const std::size_t own = strategies(bucket.node);
    for_each_cell(bucket.nodes, tables_of(bucket),
                  [&](std::size_t cell, const auto& indices, const auto&) {
                    const double sum = bucket.joint[cell] + bucket.completion[cell / own];
                    if (sum == infinite) return;
                    std::size_t table = bucket.edges.size();
                    for (const std::size_t child : bucket.children) {
                      const std::size_t index = indices[table++];
                      double& least = buckets_[child].completion[index];
                      least = std::min(least, sum - buckets_[child].message[index]);
                    }
                  });
  }

  std::vector<Label> run_labels() {
    for (Bucket& bucket : buckets_) {
      if (options_.deadline.is_over()) throw GaveUp();
      make_lists(bucket);
      for (const std::size_t child : bucket.children) buckets_[child].lists.clear();
    }
    std::vector<Label> result;
    double rest = total_;
    for (std::size_t k = 0; k < roots_.size(); ++k) {
      rest -= buckets_[roots_[k]].message.front();
      const auto& list = buckets_[roots_[k]].lists.front();
      result = k == 0 ? list : labels_.merge(result, list, rest);
    }
    return result;
  }

  void make_lists(Bucket& bucket) {
    const std::size_t own = strategies(bucket.node);
    std::vector<Label> own_labels(own, -1);
    bucket.lists.resize(bucket.message.size());
    for_each_cell(bucket.nodes, tables_of(bucket),
                  [&](std::size_t cell, const auto& indices, const auto& digits) {
                    const double completion = bucket.completion[cell / own];
                    if (!labels_.is_promising(bucket.joint[cell] + completion)) return;
                    const std::size_t s = digits.back();
                    if (own_labels[s] < 0) {
                      own_labels[s] = labels_.add_strategy(bucket.node, static_cast<int>(s));
                    }
                    Cost cost = 0;
                    std::size_t table = 0;
                    for (const std::size_t k : bucket.edges) {
                      cost = plus(cost, problem_.edges[k].costs[indices[table++]]);
                    }
                    std::vector<Label> list{labels_.add_cost(own_labels[s], cost)};
                    double rest = bucket.joint[cell] + completion - labels_.priced(list.front());
                    for (const std::size_t child : bucket.children) {
                      const std::size_t index = indices[table++];
                      rest -= buckets_[child].message[index];
                      list = labels_.merge(list, buckets_[child].lists[index], rest);
                    }
                    auto& into = bucket.lists[cell / own];
                    into.insert(into.end(), list.begin(), list.end());
                  });
    if (own == 1) return;
    for (auto& list : bucket.lists) {
      if (list.size() > 1) list = labels_.undominated(list);
    }
  }

  const AssignmentProblem& problem_;
  const LimitedEliminationOptions& options_;
  Labels labels_;
  std::vector<Bucket> buckets_;  ///< in the order in which their nodes go
  std::vector<std::size_t> roots_;
  double total_ = 0;  ///< the least that a choice costs and pays
};

/// The problem with some of its limits alone, and their prices.
std::pair<AssignmentProblem, std::vector<double>> with_limits(const AssignmentProblem& problem,
                                                              const std::vector<int>& times,
                                                              const std::vector<double>& prices) {
  AssignmentProblem part = problem;
  std::ranges::fill(part.usage_limits, -1);
  for (const int t : times) part.usage_limits[at(t)] = problem.usage_limits[at(t)];
  std::vector<int> names(problem.usage_limits.size());
  std::iota(names.begin(), names.end(), 0);
  compress_usage(part, &names);
  std::vector<double> part_prices;
  for (const int t : names) part_prices.push_back(prices[at(t)]);
  return {std::move(part), std::move(part_prices)};
}

/// The times where a unit of limit is worth most, as far as it is worth anything.
std::vector<int> dearest_times(const LimitedEliminationOptions& options) {
  std::vector<int> times;
  for (std::size_t t = 0; t < options.prices.size(); ++t) {
    if (options.prices[t] > 0) times.push_back(static_cast<int>(t));
  }
  std::ranges::stable_sort(times, std::greater{}, [&](int t) { return options.prices[at(t)]; });
  if (times.size() > most_limits_at_first) times.resize(most_limits_at_first);
  return times;
}

/// The time at which the choice is furthest over its limit; -1 where it is within all.
int time_most_over(const AssignmentProblem& problem, const std::vector<int>& choice) {
  const std::vector<std::int64_t> usage = usage_over_time(problem, choice);
  std::int64_t most = 0;
  int time = -1;
  for (std::size_t t = 0; t < problem.usage_limits.size(); ++t) {
    if (usage[t] - problem.usage_limits[t] <= most) continue;
    most = usage[t] - problem.usage_limits[t];
    time = static_cast<int>(t);
  }
  return time;
}

}  // namespace

std::optional<LimitedElimination> eliminate_under_limits(const AssignmentProblem& problem,
                                                         const LimitedEliminationOptions& options) {
  std::vector<int> times = dearest_times(options);
  LimitedElimination result;
  while (times.size() <= most_limits) {
    LimitedEliminationOptions part_options = options;
    const auto [part, prices] = with_limits(problem, times, options.prices);
    part_options.prices = prices;
    LimitedElimination found;
    try {
      found = Elimination(part, part_options).run();
    } catch (const GaveUp&) {
      break;
    }
    result.bound = std::max(result.bound, found.bound);
    if (found.choice.empty()) return result;
    const int time = time_most_over(problem, found.choice);
    if (time < 0) {
      result.choice = std::move(found.choice);
      return result;
    }
    if (std::ranges::count(times, time) > 0) break;
    times.push_back(time);
  }
  if (result.bound == 0) return std::nullopt;
  return result;
}

}  // namespace autopar::search
