// Every time is a set of terms: nodes, or slots of buckets in their place. Sets are compared by
// sums of random numbers, one a term (Zobrist 1970), so that the terms outside of a bucket's
// subtree are a difference. Two sums of 128 bits are never equal by chance.

#include "assignment/elimination/usage_slots.h"

#include <algorithm>
#include <map>
#include <random>
#include <span>
#include <utility>

namespace autopar::assignment {

namespace {

__extension__ typedef unsigned __int128 TermSet;

class SlotMaker {
 public:
  SlotMaker(const AssignmentProblem& problem, const BucketTree& tree)
      : problem_(problem),
        tree_(tree),
        limits_(problem.usage_limits),
        all_(problem.usage_limits.size(), 0),
        slot_of_(tree.buckets().size()),
        sets_(tree.buckets().size()) {
    for (std::size_t t = 0; t < all_.size(); ++t) times_.push_back(static_cast<int>(t));
    for (const auto& node : problem.nodes) {
      const TermSet term = node_terms_.emplace_back(new_term());
      for (int t = node.first; t < node.end; ++t) all_[t] += term;
    }
  }

  std::vector<UsageSlots> run() {
    std::vector<UsageSlots> result;
    for (std::size_t k = 0; k < tree_.buckets().size(); ++k) result.push_back(slots_of(k));
    return result;
  }

 private:
  TermSet new_term() {
    const TermSet high = random_();
    return (high << 64) + random_();
  }

  /// A time that is still distinct from others.
  struct Time {
    TermSet elsewhere;  ///< its terms outside of the bucket's subtree
    int time;
    int sum;
  };

  UsageSlots slots_of(std::size_t k) {
    UsageSlots result;
    std::vector<TermSet> subtree;  // by sum
    std::vector<Time> open = sum_up(k, result, subtree);
    for (const std::size_t child : tree_.buckets()[k].children) slot_of_[child] = {};
    slot_of_[k].assign(all_.size(), -1);
    times_.clear();
    std::vector<int> slot_of_sum(subtree.size(), -1);
    const auto alike = may_be_alike(open, subtree.size());
    std::ranges::sort(open.begin(), alike, {}, &Time::elsewhere);
    for (auto first = open.begin(); first != open.end();) {
      auto end = first + 1;
      while (end < alike && end->elsewhere == first->elsewhere) ++end;
      merge(k, std::span(first, end), subtree, slot_of_sum, result);
      first = end;
    }
    std::ranges::sort(times_);
    return result;
  }

  /// Moves those to the front whose terms elsewhere may equal those of another: times of the same
  /// sum were distinguished before.
  static std::vector<Time>::iterator may_be_alike(std::vector<Time>& open, std::size_t sums) {
    std::vector<int> counts(sums, 0);
    for (const Time& time : open) ++counts[time.sum];
    const int commonest = static_cast<int>(std::ranges::max_element(counts) - counts.begin());
    std::vector<TermSet> others;
    for (const Time& time : open) {
      if (time.sum != commonest) others.push_back(time.elsewhere);
    }
    std::ranges::sort(others);
    return std::partition(open.begin(), open.end(), [&](const Time& time) {
      return time.sum != commonest || std::ranges::binary_search(others, time.elsewhere);
    });
  }

  /// The sums of the bucket, and the times that have terms elsewhere too.
  std::vector<Time> sum_up(std::size_t k, UsageSlots& result, std::vector<TermSet>& subtree) const {
    const Bucket& bucket = tree_.buckets()[k];
    const auto& node = problem_.nodes[bucket.node];
    result.child_slots.resize(bucket.children.size());
    std::vector<Time> open;
    std::map<std::vector<int>, int> sums;
    std::vector<int> parts(1 + bucket.children.size());
    std::vector<int> last;
    int sum = -1;
    for (const int t : times_) {
      parts[0] = node.first <= t && t < node.end ? 1 : 0;
      for (std::size_t c = 0; c < bucket.children.size(); ++c) {
        parts[c + 1] = slot_of_[bucket.children[c]][t];
      }
      if (parts != last) {
        last = parts;
        const auto [known, is_new] = sums.emplace(parts, static_cast<int>(subtree.size()));
        sum = known->second;
        if (is_new) {
          TermSet set = parts[0] ? node_terms_[bucket.node] : 0;
          for (std::size_t c = 0; c < bucket.children.size(); ++c) {
            result.child_slots[c].push_back(parts[c + 1]);
            if (parts[c + 1] >= 0) set += sets_[bucket.children[c]][parts[c + 1]];
          }
          subtree.push_back(set);
          result.has_node.push_back(static_cast<char>(parts[0]));
          result.limits.push_back(limits_[t]);
        }
      }
      std::int64_t& limit = result.limits[sum];
      limit = std::min(limit, limits_[t]);
      if (all_[t] != subtree[sum]) open.push_back({all_[t] - subtree[sum], t, sum});
    }
    return open;
  }

  /// Merges times that differ within the subtree alone.
  void merge(std::size_t k, std::span<const Time> times, const std::vector<TermSet>& subtree,
             std::vector<int>& slot_of_sum, UsageSlots& result) {
    const int t = times.front().time;
    const std::int64_t limit = limits_[t];
    times_.push_back(t);
    std::map<int, std::int64_t> terms;
    for (const Time& time : times) {
      const std::int64_t more = limit - limits_[time.time];
      const auto [known, is_new] = terms.emplace(time.sum, more);
      if (!is_new) known->second = std::max(known->second, more);
    }
    if (terms.size() > 1) {
      slot_of_[k][t] = static_cast<int>(result.slots.size());
      auto& slot = result.slots.emplace_back();
      for (const auto& [sum, more] : terms) slot.push_back({sum, more});
      sets_[k].push_back(new_term());
      all_[t] = times.front().elsewhere + sets_[k].back();
      return;
    }
    const auto [sum, more] = *terms.begin();
    limits_[t] -= more;
    if (subtree[sum] == 0) return;
    int& slot = slot_of_sum[sum];
    if (slot < 0) {
      slot = static_cast<int>(result.slots.size());
      result.slots.push_back({{sum, 0}});
      sets_[k].push_back(subtree[sum]);
    }
    slot_of_[k][t] = slot;
  }

  const AssignmentProblem& problem_;
  const BucketTree& tree_;
  std::vector<std::int64_t> limits_;  ///< by time
  std::mt19937_64 random_;
  std::vector<TermSet> node_terms_;
  std::vector<int> times_;                  ///< that are distinct
  std::vector<TermSet> all_;                ///< by time, its terms
  std::vector<std::vector<int>> slot_of_;   ///< by bucket and time; -1 without terms in the subtree
  std::vector<std::vector<TermSet>> sets_;  ///< by bucket and slot
};

}  // namespace

std::vector<UsageSlots> usage_slots(const AssignmentProblem& problem, const BucketTree& tree) {
  return SlotMaker(problem, tree).run();
}

}  // namespace autopar::assignment
