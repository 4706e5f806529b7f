#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "assignment/elimination/limited_elimination.h"
#include "assignment/elimination/usage_slots.h"

namespace autopar::assignment {

/// Thrown where labels take too many comparisons, or the deadline comes.
struct LabelBudgetSpent {};

/// Choices for the nodes of a bucket's subtree: cost and usage of each, sorted by priced cost.
struct Labels {
  std::vector<double> priced;  ///< cost, and what the usage pays
  std::vector<Cost> costs;
  std::vector<std::int64_t> usages;  ///< by label and slot, or sum (usage_slots.h)
  std::vector<int> traces;           ///< where their strategies are recorded
  std::size_t size() const { return priced.size(); }
};

/// Makes lists of undominated labels and records their strategies. What makes lists may throw
/// LabelBudgetSpent. `options` must outlive it.
class LabelMaker {
 public:
  /// A label that costs and pays more than `priced_goal` with its completion is dropped.
  LabelMaker(const LabelOptions& options, double priced_goal)
      : options_(options), priced_goal_(priced_goal) {}

  bool is_promising(double priced) const;
  /// Throws LabelBudgetSpent where there are too many, or the deadline has come.
  void note_comparisons(std::size_t count);

  /// The trace of a node's strategy.
  int trace_of_strategy(int node, int strategy) { return trace_of(-1 - node, strategy); }
  /// The sums of labels with those of a child that keep the limits and may lead below the goal, at
  /// most as many as the width. `rest` is a lower bound on what their completion pays.
  Labels merge(const Labels& sums, const Labels& child, const std::vector<int>& child_slots,
               const UsageSlots& slots, double rest);
  /// The lists merged, with usages by slot.
  Labels unite(const std::vector<Labels>& lists, const UsageSlots& slots, double rest);

  /// Writes the strategies of a trace into the choice.
  void follow(int trace, std::vector<int>& choice) const;
  double comparisons() const { return comparisons_; }
  /// A lower bound on what the labels dropped because of the width pay with their completion.
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
