#include "search/usage_rows.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace autopar::search {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// By time, the sum of what `usage(node)` says of the nodes alive then.
template <typename Usage>
std::vector<WideCost> sum_over_time(const AssignmentProblem& problem, const Usage& usage) {
  std::vector<WideCost> sums(problem.usage_limits.size() + 1, 0);
  for (const auto& node : problem.nodes) {
    sums[at(node.first)] += usage(node);
    sums[at(node.end)] -= usage(node);
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

/// Renumbers the times that are kept from 0; nodes alive at none of them end up at [0, 0).
void keep_times(AssignmentProblem& problem, std::vector<WideCost>& limits, std::vector<int>& names,
                const std::vector<char>& is_kept) {
  std::vector<int> kept_before(is_kept.size() + 1, 0);
  for (std::size_t t = 0; t < is_kept.size(); ++t) {
    kept_before[t + 1] = kept_before[t] + (is_kept[t] ? 1 : 0);
    limits[at(kept_before[t])] = limits[t];
    names[at(kept_before[t])] = names[t];
  }
  limits.resize(at(kept_before.back()));
  names.resize(limits.size());
  problem.usage_limits.resize(limits.size());
  for (auto& node : problem.nodes) {
    node.first = kept_before[at(node.first)];
    node.end = kept_before[at(node.end)];
    if (node.first < node.end) continue;
    node.first = node.end = 0;
    std::ranges::fill(node.usages, 0);
  }
}

/// A time is covered by a neighbour that has all its nodes and no higher limit.
std::vector<char> covered_times(const AssignmentProblem& problem,
                                const std::vector<WideCost>& limits) {
  std::vector<int> starting(limits.size() + 1, 0);
  std::vector<int> ending(limits.size() + 1, 0);
  for (const auto& node : problem.nodes) {
    if (!is_limited(node)) continue;
    ++starting[at(node.first)];
    ++ending[at(node.end)];
  }
  std::vector<char> is_kept(limits.size(), 1);
  for (std::size_t t = 0; t + 1 < limits.size(); ++t) {
    if (ending[t + 1] == 0 && limits[t + 1] <= limits[t]) {
      is_kept[t] = 0;
    } else if (is_kept[t] && starting[t + 1] == 0 && limits[t] <= limits[t + 1]) {
      is_kept[t + 1] = 0;
    }
  }
  return is_kept;
}

/// A time is implied by the one with the least limit where all that is alive then and not at that
/// one cannot make up the difference: weights that fit a device's fair share leave room enough.
std::vector<char> times_not_implied(const AssignmentProblem& problem,
                                    const std::vector<WideCost>& limits) {
  const int tightest = static_cast<int>(std::ranges::min_element(limits) - limits.begin());
  const auto most_beside = sum_over_time(problem, [&](const auto& node) -> WideCost {
    return node.first <= tightest && tightest < node.end ? 0 : std::ranges::max(node.usages);
  });
  std::vector<char> is_kept(limits.size());
  for (std::size_t t = 0; t < limits.size(); ++t) {
    is_kept[t] =
        static_cast<int>(t) == tightest || most_beside[t] > limits[t] - limits[at(tightest)];
  }
  return is_kept;
}

}  // namespace

bool compress_usage(AssignmentProblem& problem, std::vector<int>* names) {
  std::vector<WideCost> limits(problem.usage_limits.begin(), problem.usage_limits.end());
  std::vector<int> unnamed(names ? 0 : limits.size());
  if (!names) names = &unnamed;
  const int times = static_cast<int>(limits.size());
  for (auto& node : problem.nodes) {
    node.first = std::min(node.first, times);
    node.end = std::min(node.end, times);
  }
  std::vector<char> has_limit(limits.size());
  for (std::size_t t = 0; t < limits.size(); ++t) has_limit[t] = limits[t] >= 0;
  keep_times(problem, limits, *names, has_limit);
  drop_constant_usage(problem, limits);
  if (std::ranges::any_of(limits, [](WideCost limit) { return limit < 0; })) return false;

  const auto most = sum_over_time(
      problem, [](const auto& node) -> WideCost { return std::ranges::max(node.usages); });
  std::vector<char> can_be_exceeded(limits.size());
  for (std::size_t t = 0; t < limits.size(); ++t) can_be_exceeded[t] = most[t] > limits[t];
  keep_times(problem, limits, *names, can_be_exceeded);
  if (!limits.empty()) keep_times(problem, limits, *names, times_not_implied(problem, limits));
  for (std::size_t before = limits.size() + 1; limits.size() < before;) {
    before = limits.size();
    keep_times(problem, limits, *names, covered_times(problem, limits));
  }
  problem.usage_limits.clear();
  for (const WideCost limit : limits) {
    problem.usage_limits.push_back(static_cast<std::int64_t>(limit));
  }
  return true;
}

}  // namespace autopar::search
