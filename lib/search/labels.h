#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "search/limited_elimination.h"

namespace autopar::search {

/// Thrown where labels or tables grow beyond measure, or time runs out.
struct GaveUp {};

/// A label's number among all.
using Label = int;

/// Labels stand for choices of some nodes: what they cost and use, and how they came about.
/// `problem` and `options` must outlive them. All that makes labels throws GaveUp where they become
/// too many.
class Labels {
 public:
  Labels(const AssignmentProblem& problem, const LimitedEliminationOptions& options);

  /// What costs and pays more with all that it lacks is of no interest.
  void set_goal(double priced_goal) { priced_goal_ = priced_goal; }
  bool is_promising(double priced) const;

  Label add_strategy(int node, int strategy);
  /// The label with more cost, of the same choice.
  Label add_cost(Label label, Cost cost);
  /// All sums of two that stay within the limits and below the goal, where `rest` is what the rest
  /// pays at least; both lists and the result have the least priced first.
  std::vector<Label> merge(const std::vector<Label>& a, const std::vector<Label>& b, double rest);
  /// Those that no other dominates, the least priced first.
  std::vector<Label> undominated(const std::vector<Label>& labels);

  /// Cost and the price of usage.
  double priced(Label label) const { return priced_[static_cast<std::size_t>(label)]; }
  /// The cost, rounded down to the tolerance at each merge.
  Cost cost(Label label) const { return costs_[static_cast<std::size_t>(label)]; }
  /// Writes the strategies that the label stands for.
  void trace(Label label, std::vector<int>& choice) const;

 private:
  struct Candidate {
    Cost cost;
    std::size_t usage;  ///< where it starts in candidate_usages_
    std::pair<Label, Label> parents;
  };

  Label add(Cost cost, const std::int64_t* usage, std::pair<Label, int> parents);
  Cost rounded(Cost cost) const;
  bool dominates(const Candidate& a, const Candidate& b) const;
  std::vector<Label> keep_undominated();

  const AssignmentProblem& problem_;
  const LimitedEliminationOptions& options_;
  const std::size_t rows_;  ///< limits
  double priced_goal_ = std::numeric_limits<double>::infinity();
  std::vector<Cost> costs_;
  std::vector<double> priced_;
  std::vector<std::int64_t> usages_;  ///< by label and limit
  /// What was merged, -1 where it is one label; or a node's strategy, the node n as -1 - n.
  std::vector<std::pair<Label, int>> parents_;
  std::vector<Candidate> candidates_;  ///< of the list that is being made
  std::vector<std::int64_t> candidate_usages_;
};

}  // namespace autopar::search
