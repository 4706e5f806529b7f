#include "assignment/elimination/labels.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

namespace autopar::assignment {

namespace {

/// Relative rounding error of sums.
constexpr double rounding = 1e-11;

/// Whether a label costs and uses no more. Usages have that many slots.
bool is_dominated(const Labels& labels, std::size_t slots, Cost cost, const std::int64_t* usage) {
  for (std::size_t k = 0; k < labels.size(); ++k) {
    if (labels.costs[k] > cost) continue;
    const std::int64_t* other = labels.usages.data() + k * slots;
    std::size_t slot = 0;
    while (slot < slots && other[slot] <= usage[slot]) ++slot;
    if (slot == slots) return true;
  }
  return false;
}

}  // namespace

bool LabelMaker::is_promising(double priced) const {
  return priced - rounding * std::abs(priced) <= priced_goal_;
}

void LabelMaker::note_comparisons(std::size_t count) {
  comparisons_ += static_cast<double>(count);
  if (comparisons_ > options_.most_comparisons) throw LabelBudgetSpent();
  if (comparisons_ - comparisons_at_look_ < options_.comparisons_between_looks) return;
  comparisons_at_look_ = comparisons_;
  if (options_.deadline.is_over()) throw LabelBudgetSpent();
}

int LabelMaker::trace_of(int a, int b) {
  traces_.emplace_back(a, b);
  return static_cast<int>(traces_.size()) - 1;
}

Labels LabelMaker::merge(const Labels& sums, const Labels& child,
                         const std::vector<int>& child_slots, const UsageSlots& slots,
                         double rest) {
  Labels result;
  if (sums.size() == 0 || child.size() == 0) return result;
  const std::size_t count = child_slots.size();
  const std::size_t stride = child.usages.size() / child.size();
  using Entry = std::tuple<double, std::size_t, std::size_t>;  // priced, and which labels
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  for (std::size_t x = 0; x < sums.size(); ++x) {
    queue.emplace(sums.priced[x] + child.priced.front(), x, 0);
  }
  std::vector<std::int64_t> usage(count);
  while (!queue.empty()) {
    note_comparisons(1 + result.size());
    const auto [priced, x, y] = queue.top();
    if (!is_promising(priced + rest)) break;
    if (result.size() >= options_.width) {
      least_dropped_ = std::min(least_dropped_, priced + rest);
      break;
    }
    queue.pop();
    if (y + 1 < child.size()) queue.emplace(sums.priced[x] + child.priced[y + 1], x, y + 1);
    bool is_within = true;
    for (std::size_t k = 0; k < count && is_within; ++k) {
      usage[k] = sums.usages[x * count + k];
      if (child_slots[k] >= 0) usage[k] += child.usages[y * stride + child_slots[k]];
      is_within = usage[k] <= slots.limits[k];
    }
    if (!is_within) continue;
    const Cost cost = sums.costs[x] + child.costs[y];
    if (is_dominated(result, count, cost, usage.data())) continue;
    result.priced.push_back(priced);
    result.costs.push_back(cost);
    result.usages.insert(result.usages.end(), usage.begin(), usage.end());
    result.traces.push_back(trace_of(sums.traces[x], child.traces[y]));
  }
  return result;
}

Labels LabelMaker::unite(const std::vector<Labels>& lists, const UsageSlots& slots, double rest) {
  std::vector<std::pair<std::size_t, std::size_t>> order;
  for (std::size_t list = 0; list < lists.size(); ++list) {
    for (std::size_t k = 0; k < lists[list].size(); ++k) order.emplace_back(list, k);
  }
  const auto priced = [&](const auto& entry) { return lists[entry.first].priced[entry.second]; };
  std::ranges::stable_sort(order, {}, priced);
  Labels result;
  const std::size_t count = slots.limits.size();
  std::vector<std::int64_t> usage(slots.slots.size());
  for (const auto& entry : order) {
    note_comparisons(1 + result.size());
    const Labels& list = lists[entry.first];
    const std::int64_t* sums = list.usages.data() + entry.second * count;
    for (std::size_t slot = 0; slot < usage.size(); ++slot) {
      usage[slot] = std::numeric_limits<std::int64_t>::min();
      for (const auto& [sum, more] : slots.slots[slot]) {
        usage[slot] = std::max(usage[slot], sums[sum] + more);
      }
    }
    const Cost cost = list.costs[entry.second];
    if (is_dominated(result, usage.size(), cost, usage.data())) continue;
    if (result.size() >= options_.width) {
      least_dropped_ = std::min(least_dropped_, priced(entry) + rest);
      break;
    }
    result.priced.push_back(priced(entry));
    result.costs.push_back(cost);
    result.usages.insert(result.usages.end(), usage.begin(), usage.end());
    result.traces.push_back(list.traces[entry.second]);
  }
  return result;
}

void LabelMaker::follow(int trace, std::vector<int>& choice) const {
  std::vector<int> open{trace};
  while (!open.empty()) {
    const auto [a, b] = traces_[open.back()];
    open.pop_back();
    if (a < 0) {
      choice[-1 - a] = b;
      continue;
    }
    open.push_back(a);
    open.push_back(b);
  }
}

}  // namespace autopar::assignment
