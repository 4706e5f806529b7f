#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "assignment/elimination/limited_elimination.h"
#include "assignment/elimination/usage_slots.h"

namespace autopar::assignment {

/// Thrown where labels take too many comparisons, or time runs out.
struct GaveUp {};

/// Choices of the nodes behind a bucket: what each costs and uses, the least priced first.
struct Labels {
  std::vector<double> priced;  ///< cost and the price of usage
  std::vector<Cost> costs;
  std::vector<std::int64_t> usages;  ///< by label and slot, or sum (usage_slots.h)
  std::vector<int> traces;           ///< how they came about
  std::size_t size() const { return priced.size(); }
};

/// Makes lists of labels, none of which another dominates, and remembers how they came about. All
/// that makes lists may throw GaveUp. `options` must outlive it.
class LabelMaker {
 public:
  /// What costs and pays more than `priced_goal` with all that it lacks is of no interest.
  LabelMaker(const LabelOptions& options, double priced_goal)
      : options_(options), priced_goal_(priced_goal) {}

  bool is_promising(double priced) const;
  /// Throws GaveUp where these are too many, or the deadline has come.
  void note_comparisons(std::size_t count);

  /// The trace of a node's strategy.
  int trace_of_strategy(int node, int strategy) { return trace_of(-1 - node, strategy); }
  /// Sums with the labels of a child that keep the limits and may lead below the goal, where `rest`
  /// is what the rest pays at least; no more than the width.
  Labels merge(const Labels& sums, const Labels& child, const std::vector<int>& child_slots,
               const UsageSlots& slots, double rest);
  /// All of the lists together, by slot.
  Labels unite(const std::vector<Labels>& lists, const UsageSlots& slots, double rest);

  /// The strategies that the trace stands for.
  void follow(int trace, std::vector<int>& choice) const;
  double comparisons() const { return comparisons_; }
  /// What the labels that were dropped for the width's sake pay at least, with the rest.
  double least_dropped() const { return least_dropped_; }

 private:
  int trace_of(int a, int b);

  const LabelOptions& options_;
  const double priced_goal_;
  double least_dropped_ = std::numeric_limits<double>::infinity();
  /// Two traces, or a node's strategy, the node n as -1 - n.
  std::vector<std::pair<int, int>> traces_;
  double comparisons_ = 0;
  double comparisons_at_look_ = 0;
};

}  // namespace autopar::assignment
