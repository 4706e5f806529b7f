// Every time is a set of terms: nodes, or slots of buckets in their place. Sets are compared by
// sums of random numbers, one a term (Zobrist 1970), so that the terms outside of a bucket's
// subtree are a difference. Two sums of 128 bits are never equal by chance.

#include "assignment/elimination/usage_slots.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <span>

namespace autopar::assignment {

namespace {

__extension__ typedef unsigned __int128 TermSet;

/// What is known of the times while buckets are visited, children before parents.
struct Times {
  Times(const AssignmentProblem& problem, std::size_t buckets)
      : limits(problem.usage_limits),
        distinct(limits.size()),
        terms(limits.size(), 0),
        slot_of(buckets),
        slot_sets(buckets) {
    std::iota(distinct.begin(), distinct.end(), 0);
    for (const auto& node : problem.nodes) {
      const TermSet term = node_terms.emplace_back(new_term());
      for (int t = node.first; t < node.end; ++t) terms[t] += term;
    }
  }
  TermSet new_term() {
    const TermSet high = random();
    return (high << 64) + random();
  }

  std::vector<std::int64_t> limits;             ///< by time
  std::vector<int> distinct;                    ///< those that are distinct from others
  std::vector<TermSet> terms;                   ///< by time
  std::vector<TermSet> node_terms;              ///< by node, its term
  std::vector<std::vector<int>> slot_of;        ///< by bucket and time; -1 without a term below it
  std::vector<std::vector<TermSet>> slot_sets;  ///< by bucket and slot
  std::mt19937_64 random;
};

/// A time that has terms outside of a bucket's subtree too.
struct OpenTime {
  TermSet elsewhere;  ///< those terms
  int time;
  int sum;
};

/// The terms of each sum of a bucket, and the open times.
struct Sums {
  std::vector<TermSet> terms;
  std::vector<OpenTime> open;
};

/// Fills all of `slots` but the bucket's own.
Sums sum_up(const AssignmentProblem& problem, const Bucket& bucket, const Times& times,
            UsageSlots& slots) {
  const auto& node = problem.nodes[bucket.node];
  slots.child_slots.resize(bucket.children.size());
  Sums result;
  std::map<std::vector<int>, int> sums;
  std::vector<int> parts(1 + bucket.children.size());
  std::vector<int> last;
  int sum = -1;
  for (const int t : times.distinct) {
    parts[0] = node.first <= t && t < node.end ? 1 : 0;
    for (std::size_t c = 0; c < bucket.children.size(); ++c) {
      parts[c + 1] = times.slot_of[bucket.children[c]][t];
    }
    if (parts != last) {
      last = parts;
      const auto [known, is_new] = sums.emplace(parts, static_cast<int>(result.terms.size()));
      sum = known->second;
      if (is_new) {
        TermSet& terms = result.terms.emplace_back(parts[0] ? times.node_terms[bucket.node] : 0);
        for (std::size_t c = 0; c < bucket.children.size(); ++c) {
          slots.child_slots[c].push_back(parts[c + 1]);
          if (parts[c + 1] >= 0) terms += times.slot_sets[bucket.children[c]][parts[c + 1]];
        }
        slots.has_node.push_back(static_cast<char>(parts[0]));
        slots.limits.push_back(times.limits[t]);
      }
    }
    slots.limits[sum] = std::min(slots.limits[sum], times.limits[t]);
    const TermSet elsewhere = times.terms[t] - result.terms[sum];
    if (elsewhere != 0) result.open.push_back({elsewhere, t, sum});
  }
  return result;
}

/// Moves those to the front whose terms elsewhere may equal those of another: times of the same
/// sum were distinguished before.
std::vector<OpenTime>::iterator may_be_alike(std::vector<OpenTime>& open, std::size_t sums) {
  std::vector<int> counts(sums, 0);
  for (const OpenTime& time : open) ++counts[time.sum];
  const int commonest = static_cast<int>(std::ranges::max_element(counts) - counts.begin());
  std::vector<TermSet> others;
  for (const OpenTime& time : open) {
    if (time.sum != commonest) others.push_back(time.elsewhere);
  }
  std::ranges::sort(others);
  return std::partition(open.begin(), open.end(), [&](const OpenTime& time) {
    return time.sum != commonest || std::ranges::binary_search(others, time.elsewhere);
  });
}

/// Merges open times that differ within the k-th bucket's subtree alone: one stays distinct.
/// `slot_of_sum` is -1 for sums that have no slot of their own yet.
void merge(std::span<const OpenTime> alike, std::size_t k, const Sums& sums,
           std::vector<int>& slot_of_sum, Times& times, UsageSlots& slots) {
  const int t = alike.front().time;
  const std::int64_t limit = times.limits[t];
  times.distinct.push_back(t);
  std::map<int, std::int64_t> terms;
  for (const OpenTime& time : alike) {
    const std::int64_t more = limit - times.limits[time.time];
    const auto [known, is_new] = terms.emplace(time.sum, more);
    if (!is_new) known->second = std::max(known->second, more);
  }
  if (terms.size() > 1) {
    times.slot_of[k][t] = static_cast<int>(slots.slots.size());
    auto& slot = slots.slots.emplace_back();
    for (const auto& [sum, more] : terms) slot.push_back({sum, more});
    times.slot_sets[k].push_back(times.new_term());
    times.terms[t] = alike.front().elsewhere + times.slot_sets[k].back();
    return;
  }
  const auto [sum, more] = *terms.begin();
  times.limits[t] -= more;
  if (sums.terms[sum] == 0) return;
  int& slot = slot_of_sum[sum];
  if (slot < 0) {
    slot = static_cast<int>(slots.slots.size());
    slots.slots.push_back({{sum, 0}});
    times.slot_sets[k].push_back(sums.terms[sum]);
  }
  times.slot_of[k][t] = slot;
}

}  // namespace

std::vector<UsageSlots> usage_slots(const AssignmentProblem& problem, const BucketTree& tree) {
  Times times(problem, tree.buckets().size());
  std::vector<UsageSlots> result(tree.buckets().size());
  for (std::size_t k = 0; k < result.size(); ++k) {
    const Bucket& bucket = tree.buckets()[k];
    Sums sums = sum_up(problem, bucket, times, result[k]);
    for (const std::size_t child : bucket.children) times.slot_of[child] = {};
    times.slot_of[k].assign(times.terms.size(), -1);
    times.distinct.clear();
    std::vector<int> slot_of_sum(sums.terms.size(), -1);
    const auto alike = may_be_alike(sums.open, sums.terms.size());
    std::ranges::sort(sums.open.begin(), alike, {}, &OpenTime::elsewhere);
    for (auto first = sums.open.begin(); first != sums.open.end();) {
      auto end = first + 1;
      while (end < alike && end->elsewhere == first->elsewhere) ++end;
      merge(std::span(first, end), k, sums, slot_of_sum, times, result[k]);
      first = end;
    }
    std::ranges::sort(times.distinct);
  }
  return result;
}

}  // namespace autopar::assignment
