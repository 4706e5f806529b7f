// The least peak is the value of a game between the choice and the times: weights on times that sum
// to 1 bound it by the least weighted usage, which is an assignment problem without these limits.
// Fictitious play (Brown 1951) brings the two together; what is left is bisected, exactly where
// tables are small (label_search.h), else by neighbourhood search. Work, not time, ends each step,
// so that the same question has the same answer.

#include "assignment/elimination/least_peak.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "assignment/arc_costs.h"
#include "assignment/elimination/label_search.h"
#include "assignment/local_search/neighbourhood_search.h"
#include "assignment/presolve/usage_rows.h"
#include "base/stopwatch.h"

namespace autopar::assignment {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr int most_rounds = 12;
/// A peak known up to this part is known well enough.
constexpr double small_gap = 1e-3;
constexpr double work_of_descent = 3e7;
constexpr double most_cells = 1e7;
constexpr double most_comparisons = 1e8;
/// Weights are whole numbers, so that bounds are exact.
constexpr std::int64_t whole_weight = 1 << 10;

class PeakSearch {
 public:
  PeakSearch(const AssignmentProblem& problem, int first, int end, const SolveOptions& options)
      : problem_(problem),
        first_(first),
        end_(end),
        options_(options),
        deadline_(options.time_limit_seconds),
        weights_(at(end), 0) {
    problem_.usage_limits.resize(std::max(problem_.usage_limits.size(), at(end)), -1);
    std::fill(problem_.usage_limits.begin() + first, problem_.usage_limits.begin() + end, -1);
    for (auto& node : problem_.nodes) {
      for (Cost& cost : node.costs) cost = cost >= impossible ? impossible : 0;
    }
    std::map<const void*, CostTable> tables;
    for (auto& edge : problem_.edges) {
      CostTable& table = tables[edge.costs.identity()];
      if (table.empty()) {
        table = edge.costs;
        for (Cost& cost : table.edit()) cost = cost >= impossible ? impossible : 0;
      }
      edge.costs = table;
    }
  }

  std::optional<LeastPeak> run() {
    play();
    if (!best_.choice.empty() && !bisect()) descend();
    if (best_.choice.empty()) return std::nullopt;
    return best_;
  }

 private:
  bool is_close() const {
    return static_cast<double>(best_.peak - best_.lower_bound) <=
           small_gap * static_cast<double>(best_.peak);
  }

  void play() {
    if (first_ >= end_) return offer(least_weighted_usage().choice);
    std::vector<std::int64_t> sums(at(end_), 0);
    sums[at(first_)] = whole_weight;
    for (int round = 1; round <= most_rounds && !deadline_.is_over(); ++round) {
      for (std::size_t t = 0; t < sums.size(); ++t) weights_[t] = sums[t] / round;
      const std::int64_t whole = std::accumulate(weights_.begin(), weights_.end(), std::int64_t{0});
      const Solution solution = least_weighted_usage();
      if (solution.choice.empty()) return;
      offer(solution.choice);
      const std::int64_t bound = (solution.lower_bound + whole - 1) / whole;
      if (bound > best_.lower_bound || best_weights_.empty()) best_weights_ = weights_;
      best_.lower_bound = std::max(best_.lower_bound, bound);
      if (is_close()) return;
      add_weights(usage_over_time(problem_, solution.choice), sums);
    }
  }

  /// On the times that are nearer to the peak than to the bound.
  void add_weights(const std::vector<std::int64_t>& usage, std::vector<std::int64_t>& sums) const {
    const std::int64_t peak = usage[at(time_of_peak(usage))];
    const std::int64_t base = best_.lower_bound + (peak - best_.lower_bound) / 2;
    double whole = 0;
    for (int t = first_; t < end_; ++t) {
      whole += static_cast<double>(std::max<std::int64_t>(0, usage[at(t)] - base));
    }
    if (whole <= 0) return;
    for (int t = first_; t < end_; ++t) {
      const double over = static_cast<double>(std::max<std::int64_t>(0, usage[at(t)] - base));
      sums[at(t)] += static_cast<std::int64_t>(std::round(over / whole * whole_weight));
    }
  }

  Solution least_weighted_usage() const {
    AssignmentProblem weighted = problem_;
    for (auto& node : weighted.nodes) {
      std::int64_t weight = 0;
      for (int t = std::max(first_, node.first); t < std::min(end_, node.end); ++t) {
        weight += weights_[at(t)];
      }
      for (std::size_t s = 0; s < node.costs.size(); ++s) {
        if (node.costs[s] < impossible) node.costs[s] = weight * node.usages[s];
      }
    }
    return solve_in_time(weighted);
  }

  /// False where tables or lists of labels are too large to tell.
  bool bisect() {
    const std::vector<double> prices(best_weights_.begin(), best_weights_.end());
    while (best_.lower_bound < best_.peak) {
      const std::int64_t limit = best_.lower_bound + (best_.peak - best_.lower_bound) / 2;
      const auto found = search_labels(with_limit(limit), prices,
                                       {.goal = 1,
                                        .most_cells = most_cells,
                                        .most_comparisons = most_comparisons,
                                        .deadline = deadline_});
      if (!found || (!found->is_exact && !found->choice)) return false;
      if (found->choice) {
        offer(*found->choice);
      } else {
        best_.lower_bound = limit + 1;
      }
    }
    return true;
  }

  /// Where the search finds nothing within a limit, it looks above it.
  void descend() {
    std::int64_t low = best_.lower_bound;
    while (static_cast<double>(best_.peak - low) > small_gap * static_cast<double>(best_.peak) &&
           low < best_.peak && !deadline_.is_over()) {
      const std::int64_t limit = low + (best_.peak - low) / 2;
      AssignmentProblem limited = with_limit(limit);
      if (!compress_usage(limited)) {
        best_.lower_bound = low = limit + 1;
        continue;
      }
      const ArcCosts costs(limited, 1, 1.0);  // what is impossible costs 1, all else nothing
      NeighbourhoodSearch search(limited, costs, best_.choice, 1.0, options_.seed);
      search.advance(work_of_descent, deadline_);
      if (search.best().empty()) {
        low = limit + 1;
      } else {
        offer(search.best());
      }
    }
  }

  AssignmentProblem with_limit(std::int64_t limit) const {
    AssignmentProblem limited = problem_;
    std::fill(limited.usage_limits.begin() + first_, limited.usage_limits.begin() + end_, limit);
    return limited;
  }

  Solution solve_in_time(const AssignmentProblem& problem) const {
    SolveOptions options = options_;
    options.time_limit_seconds = std::max(0.0, deadline_.left());
    return solve(problem, options);
  }

  int time_of_peak(const std::vector<std::int64_t>& usage) const {
    const auto from = usage.begin() + first_;
    return first_ + static_cast<int>(std::max_element(from, usage.begin() + end_) - from);
  }

  void offer(const std::vector<int>& choice) {
    if (choice.empty()) return;
    const auto usage = usage_over_time(problem_, choice);
    const std::int64_t peak = first_ < end_ ? usage[at(time_of_peak(usage))] : 0;
    if (!best_.choice.empty() && peak >= best_.peak) return;
    best_.choice = choice;
    best_.peak = peak;
  }

  AssignmentProblem problem_;  ///< with possible and impossible strategies, none dearer
  const int first_;
  const int end_;
  const SolveOptions& options_;
  const Deadline deadline_;
  std::vector<std::int64_t> weights_;       ///< by time
  std::vector<std::int64_t> best_weights_;  ///< those of the best bound
  LeastPeak best_;
};

}  // namespace

std::optional<LeastPeak> find_least_peak(const AssignmentProblem& problem, int first, int end,
                                         const SolveOptions& options) {
  check(problem);
  return PeakSearch(problem, first, end, options).run();
}

}  // namespace autopar::assignment
