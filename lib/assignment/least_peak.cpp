// The least peak is the value of a game between the choice and the times: weights on times that sum
// to 1 bound it by the least weighted usage, which is an assignment problem without these limits.
// Fictitious play (Brown 1951) brings the two together; what is left is bisected, exactly where
// tables are small (elimination/label_search.h), else by neighbourhood search. Work, not time, ends
// each step, so that the same question has the same answer.

#include "assignment/least_peak.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "assignment/arc_costs.h"
#include "assignment/elimination/label_search.h"
#include "assignment/local_search/neighbourhood_search.h"
#include "assignment/presolve/usage_rows.h"

namespace autopar::assignment {

namespace {

using Weights = std::vector<std::int64_t>;  // by time; whole numbers, so that bounds are exact

/// What is asked: choices of `problem`, in which what is possible costs nothing, and the times.
struct PeakProblem {
  AssignmentProblem problem;
  int first;
  int end;
  const SolveOptions& options;
  Deadline deadline;

  const SolverParameters::Peak& parameters() const { return options.parameters.peak; }
};

PeakProblem make_peak_problem(const AssignmentProblem& whole, int first, int end,
                              const SolveOptions& options) {
  PeakProblem peak{whole, first, end, options, Deadline(options.time_limit_seconds)};
  auto& limits = peak.problem.usage_limits;
  limits.resize(std::max<std::size_t>(limits.size(), end), no_limit);
  std::fill(limits.begin() + first, limits.begin() + end, no_limit);
  const auto drop_costs = [](std::vector<Cost>& costs) {
    for (Cost& cost : costs) cost = cost >= impossible ? impossible : 0;
  };
  for (auto& node : peak.problem.nodes) drop_costs(node.costs);
  std::map<const void*, CostTable> tables;
  for (auto& edge : peak.problem.edges) {
    CostTable& table = tables[edge.costs.identity()];
    if (table.empty()) {
      table = edge.costs;
      drop_costs(table.edit());
    }
    edge.costs = table;
  }
  return peak;
}

int time_of_peak(const PeakProblem& peak, const std::vector<std::int64_t>& usage) {
  const auto from = usage.begin() + peak.first;
  return peak.first + static_cast<int>(std::max_element(from, usage.begin() + peak.end) - from);
}

/// Takes over a choice with a lower peak.
void offer(const PeakProblem& peak, const Choice& choice, LeastPeak& best) {
  if (choice.empty()) return;
  const auto usage = usage_over_time(peak.problem, choice);
  const std::int64_t own = peak.first < peak.end ? usage[time_of_peak(peak, usage)] : 0;
  if (!best.choice.empty() && own >= best.peak) return;
  best.choice = choice;
  best.peak = own;
}

/// Whether the gap between a bound and the peak is small enough.
bool is_close(const PeakProblem& peak, std::int64_t lower_bound, const LeastPeak& best) {
  const double small = peak.parameters().small_gap * static_cast<double>(best.peak);
  return static_cast<double>(best.peak - lower_bound) <= small;
}

Solution least_weighted_usage(const PeakProblem& peak, const Weights& weights) {
  AssignmentProblem weighted = peak.problem;
  for (auto& node : weighted.nodes) {
    std::int64_t weight = 0;
    for (int t = std::max(peak.first, node.first); t < std::min(peak.end, node.end); ++t) {
      weight += weights[t];
    }
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      if (node.costs[s] < impossible) node.costs[s] = weight * node.usages[s];
    }
  }
  SolveOptions options = peak.options;
  options.time_limit_seconds = std::max(0.0, peak.deadline.left());
  return solve(weighted, options);
}

/// Adds to the weights of the times that are nearer to the peak than to the bound.
void add_weights(const PeakProblem& peak, const std::vector<std::int64_t>& usage,
                 std::int64_t lower_bound, Weights& sums) {
  const std::int64_t highest = usage[time_of_peak(peak, usage)];
  const std::int64_t base =
      lower_bound + (highest - lower_bound) / peak.parameters().fraction_of_gap;
  const auto over = [&](int t) {
    return static_cast<double>(std::max<std::int64_t>(0, usage[t] - base));
  };
  double whole = 0;
  for (int t = peak.first; t < peak.end; ++t) whole += over(t);
  if (whole <= 0) return;
  for (int t = peak.first; t < peak.end; ++t) {
    const double part = over(t) / whole * peak.parameters().whole_weight;
    sums[t] += static_cast<std::int64_t>(std::round(part));
  }
}

/// Fictitious play; the weights of the best bound.
Weights play(const PeakProblem& peak, LeastPeak& best) {
  Weights sums(peak.end, 0);
  if (peak.first >= peak.end) {
    offer(peak, least_weighted_usage(peak, sums).choice, best);
    return {};
  }
  Weights best_weights;
  sums[peak.first] = peak.parameters().whole_weight;
  for (int round = 1; round <= peak.parameters().most_rounds && !peak.deadline.is_over(); ++round) {
    Weights weights = sums;
    for (std::int64_t& weight : weights) weight /= round;
    const std::int64_t whole = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
    const Solution solution = least_weighted_usage(peak, weights);
    if (solution.choice.empty()) break;
    offer(peak, solution.choice, best);
    const std::int64_t bound = (solution.lower_bound + whole - 1) / whole;
    if (bound > best.lower_bound || best_weights.empty()) best_weights = std::move(weights);
    best.lower_bound = std::max(best.lower_bound, bound);
    if (is_close(peak, best.lower_bound, best)) break;
    add_weights(peak, usage_over_time(peak.problem, solution.choice), best.lower_bound, sums);
  }
  return best_weights;
}

AssignmentProblem with_limit(const PeakProblem& peak, std::int64_t limit) {
  AssignmentProblem limited = peak.problem;
  auto& limits = limited.usage_limits;
  std::fill(limits.begin() + peak.first, limits.begin() + peak.end, limit);
  return limited;
}

/// Closes the gap between bound and peak. False where tables or lists of labels are too large.
bool bisect(const PeakProblem& peak, const Weights& weights, LeastPeak& best) {
  const std::vector<double> prices(weights.begin(), weights.end());
  while (best.lower_bound < best.peak) {
    const std::int64_t limit = best.lower_bound + (best.peak - best.lower_bound) / 2;
    const auto found = search_labels(with_limit(peak, limit), prices,
                                     {.goal = 1,
                                      .most_cells = peak.parameters().most_cells,
                                      .most_comparisons = peak.parameters().most_comparisons,
                                      .deadline = peak.deadline},
                                     peak.options.parameters);
    if (!found || (!found->is_exact && !found->choice)) return false;
    if (found->choice) {
      offer(peak, *found->choice, best);
    } else {
      best.lower_bound = limit + 1;
    }
  }
  return true;
}

/// Bisects by neighbourhood search: where it finds nothing within a limit, it looks above it.
void descend(const PeakProblem& peak, LeastPeak& best) {
  std::int64_t low = best.lower_bound;
  while (low < best.peak && !is_close(peak, low, best) && !peak.deadline.is_over()) {
    const std::int64_t limit = low + (best.peak - low) / 2;
    AssignmentProblem limited = with_limit(peak, limit);
    if (!compress_usage(limited)) {
      best.lower_bound = low = limit + 1;
      continue;
    }
    const ArcCosts costs(limited, 1, 1.0);  // what is impossible costs 1, all else nothing
    NeighbourhoodSearch search(limited, costs, best.choice, 1.0, peak.options.seed,
                               peak.options.parameters);
    search.advance(peak.parameters().work_of_descent, peak.deadline);
    if (search.best().empty()) {
      low = limit + 1;
    } else {
      offer(peak, search.best(), best);
    }
  }
}

}  // namespace

std::optional<LeastPeak> find_least_peak(const AssignmentProblem& problem, int first, int end,
                                         const SolveOptions& options) {
  check(problem);
  const PeakProblem peak = make_peak_problem(problem, first, end, options);
  LeastPeak best;
  const Weights weights = play(peak, best);
  if (best.choice.empty()) return std::nullopt;
  if (!bisect(peak, weights, best)) descend(peak, best);
  return best;
}

}  // namespace autopar::assignment
