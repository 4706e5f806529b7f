// The least peak is the value of a game between the choice and the times: weights on times that sum
// to 1 bound it by the least weighted usage, which is an assignment problem without these limits.
// Fictitious play (Brown 1951) brings the two together; what is left is bisected.

#include "search/least_peak.h"

#include <algorithm>
#include <numeric>

#include "search/stopwatch.h"

namespace autopar::search {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr int most_rounds = 12;
/// A peak known up to this part is known well enough for fictitious play, then for bisection.
constexpr double small_gap_of_play = 0.01;
constexpr double small_gap = 1e-4;
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
    for (auto& edge : problem_.edges) {
      for (Cost& cost : edge.costs) cost = cost >= impossible ? impossible : 0;
    }
  }

  std::optional<LeastPeak> run() {
    play();
    if (!best_.choice.empty()) bisect();
    if (best_.choice.empty()) return std::nullopt;
    return best_;
  }

 private:
  bool is_close(double gap) const {
    return static_cast<double>(best_.peak - best_.lower_bound) <=
           gap * static_cast<double>(best_.peak);
  }

  void play() {
    int time = first_ < end_ ? first_ : -1;
    std::vector<std::int64_t> counts(at(end_), 0);
    for (int round = 1; round <= most_rounds && time >= 0 && !deadline_.is_over(); ++round) {
      ++counts[at(time)];
      for (std::size_t t = 0; t < counts.size(); ++t) {
        weights_[t] = counts[t] * whole_weight / round;
      }
      const std::int64_t whole = std::accumulate(weights_.begin(), weights_.end(), std::int64_t{0});
      const Solution solution = least_weighted_usage();
      if (solution.choice.empty()) return;
      offer(solution.choice);
      best_.lower_bound = std::max(best_.lower_bound, (solution.lower_bound + whole - 1) / whole);
      if (is_close(small_gap_of_play)) return;
      time = time_of_peak(usage_over_time(problem_, solution.choice));
    }
    if (time < 0) offer(least_weighted_usage().choice);
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

  /// Looks for peaks between the bound and the best, with the limits proper.
  void bisect() {
    AssignmentProblem limited = problem_;
    while (!is_close(small_gap) && best_.lower_bound < best_.peak && !deadline_.is_over()) {
      const std::int64_t limit = best_.lower_bound + (best_.peak - best_.lower_bound) / 2;
      std::fill(limited.usage_limits.begin() + first_, limited.usage_limits.begin() + end_, limit);
      const Solution solution = solve_in_time(limited);
      if (solution.status == Status::infeasible) {
        best_.lower_bound = limit + 1;
      } else if (solution.choice.empty()) {
        return;
      } else {
        offer(solution.choice);
      }
    }
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
  std::vector<std::int64_t> weights_;  ///< by time
  LeastPeak best_;
};

}  // namespace

std::optional<LeastPeak> find_least_peak(const AssignmentProblem& problem, int first, int end,
                                         const SolveOptions& options) {
  check(problem);
  return PeakSearch(problem, first, end, options).run();
}

}  // namespace autopar::search
