#include "assignment/presolve/usage_rows.h"

#include <algorithm>
#include <numeric>

namespace autopar::assignment {

namespace {

/// Part of the limits that a pass may leave for another one.
constexpr double most_left = 0.99;

double as_double(std::size_t count) { return static_cast<double>(count); }

/// By time, the sum of usage(node) over the nodes alive then.
std::vector<WideCost> sum_over_time(const AssignmentProblem& problem, const auto& usage) {
  std::vector<WideCost> sums(problem.usage_limits.size() + 1, 0);
  for (const auto& node : problem.nodes) {
    sums[node.first] += usage(node);
    sums[node.end] -= usage(node);
  }
  std::inclusive_scan(sums.begin(), sums.end(), sums.begin());
  return sums;
}

void drop_constant_usage(AssignmentProblem& problem, std::vector<WideCost>& limits) {
  const auto least = sum_over_time(
      problem, [](const auto& node) -> WideCost { return std::ranges::min(node.usages); });
  for (std::size_t t = 0; t < limits.size(); ++t) limits[t] -= least[t];
  for (auto& node : problem.nodes) {
    const std::int64_t usage = std::ranges::min(node.usages);
    for (std::int64_t& more : node.usages) more -= usage;
    if (std::ranges::max(node.usages) == 0) node.first = node.end = 0;
  }
}

/// Keeps the times that are their own dominators, numbered from 0. The prices of others are added
/// to those of their dominators, or dropped where that is -1. Nodes alive at no time that is left
/// get the interval [0, 0).
void keep_undominated(AssignmentProblem& problem, std::vector<WideCost>& limits,
                      std::vector<double>& prices, const std::vector<int>& dominators) {
  std::vector<int> kept_before(dominators.size() + 1, 0);
  for (std::size_t t = 0; t < dominators.size(); ++t) {
    const bool is_kept = dominators[t] == static_cast<int>(t);
    kept_before[t + 1] = kept_before[t] + (is_kept ? 1 : 0);
    if (!is_kept && dominators[t] >= 0) prices[dominators[t]] += prices[t];
  }
  for (std::size_t t = 0; t < dominators.size(); ++t) {
    if (dominators[t] != static_cast<int>(t)) continue;
    limits[kept_before[t]] = limits[t];
    prices[kept_before[t]] = prices[t];
  }
  limits.resize(kept_before.back());
  prices.resize(limits.size());
  problem.usage_limits.resize(limits.size());
  for (auto& node : problem.nodes) {
    node.first = kept_before[node.first];
    node.end = kept_before[node.end];
    if (node.first < node.end) continue;
    node.first = node.end = 0;
    std::ranges::fill(node.usages, 0);
  }
}

/// A time is dominated by a neighbour that has all its nodes and no higher limit.
std::vector<int> dominators_by_cover(const AssignmentProblem& problem,
                                     const std::vector<WideCost>& limits) {
  std::vector<int> starting(limits.size() + 1, 0);
  std::vector<int> ending(limits.size() + 1, 0);
  for (const auto& node : problem.nodes) {
    if (!is_limited(node)) continue;
    ++starting[node.first];
    ++ending[node.end];
  }
  std::vector<int> dominators(limits.size());
  std::iota(dominators.begin(), dominators.end(), 0);
  for (std::size_t t = 0; t + 1 < limits.size(); ++t) {
    const bool is_kept = dominators[t] == static_cast<int>(t);
    if (ending[t + 1] == 0 && limits[t + 1] <= limits[t]) {
      if (is_kept) dominators[t] = static_cast<int>(t) + 1;
    } else if (is_kept && starting[t + 1] == 0 && limits[t] <= limits[t + 1]) {
      dominators[t + 1] = static_cast<int>(t);
    }
  }
  for (std::size_t t = limits.size(); t-- > 0;) dominators[t] = dominators[dominators[t]];
  return dominators;
}

/// A time is dominated by the one with the least limit where the nodes alive at it and not at that
/// one cannot use the difference of the limits. Where weights have to fit a device's fair share,
/// that drops most times.
std::vector<int> dominators_by_implication(const AssignmentProblem& problem,
                                           const std::vector<WideCost>& limits) {
  const int tightest = static_cast<int>(std::ranges::min_element(limits) - limits.begin());
  const auto most_beside = sum_over_time(problem, [&](const auto& node) -> WideCost {
    return node.first <= tightest && tightest < node.end ? 0 : std::ranges::max(node.usages);
  });
  std::vector<int> dominators(limits.size());
  for (std::size_t t = 0; t < limits.size(); ++t) {
    const bool is_implied = most_beside[t] <= limits[t] - limits[tightest];
    dominators[t] = is_implied ? tightest : static_cast<int>(t);
  }
  return dominators;
}

}  // namespace

bool compress_usage(AssignmentProblem& problem, std::vector<double>* prices) {
  std::vector<WideCost> limits(problem.usage_limits.begin(), problem.usage_limits.end());
  std::vector<double> no_prices;
  if (!prices) prices = &no_prices;
  prices->resize(limits.size(), 0);
  const int times = static_cast<int>(limits.size());
  for (auto& node : problem.nodes) {
    node.first = std::min(node.first, times);
    node.end = std::min(node.end, times);
  }
  const auto keep = [&](const auto& is_kept) {
    std::vector<int> dominators(limits.size());
    for (std::size_t t = 0; t < dominators.size(); ++t)
      dominators[t] = is_kept(t) ? static_cast<int>(t) : -1;
    keep_undominated(problem, limits, *prices, dominators);
  };
  keep([&](std::size_t t) { return limits[t] >= 0; });
  drop_constant_usage(problem, limits);
  if (std::ranges::any_of(limits, [](WideCost limit) { return limit < 0; })) return false;

  const auto most = sum_over_time(
      problem, [](const auto& node) -> WideCost { return std::ranges::max(node.usages); });
  keep([&](std::size_t t) { return most[t] > limits[t]; });
  if (!limits.empty())
    keep_undominated(problem, limits, *prices, dominators_by_implication(problem, limits));
  // As long as it is worth a pass over all nodes.
  for (std::size_t before = 2 * limits.size();
       as_double(limits.size()) <= most_left * as_double(before);) {
    before = limits.size();
    if (before == 0) break;
    keep_undominated(problem, limits, *prices, dominators_by_cover(problem, limits));
  }
  problem.usage_limits.assign(limits.begin(), limits.end());
  return true;
}

}  // namespace autopar::assignment
