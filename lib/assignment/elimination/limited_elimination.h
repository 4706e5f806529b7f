#pragma once

#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/deadline.h"
#include "assignment/elimination/bucket_tree.h"
#include "assignment/elimination/usage_slots.h"
#include "assignment/parameters.h"

namespace autopar::assignment {

/// How far an elimination goes.
struct LabelOptions {
  Cost goal = impossible;             ///< choices that cost as much are of no interest
  std::size_t width = 1'000'000'000;  ///< the most labels in a table's cell
  double most_comparisons = 1e18;     ///< of labels, which is about the work
  double comparisons_between_looks = SolverParameters::Labels{}.comparisons_between_looks;
  Deadline deadline = {};
};

/// Solves problems under limits whose graphs are nearly trees, as bucket elimination does, with
/// pairs of cost and usage in the tables that may lead below a goal: all of them, or the cheapest
/// at some prices where they are more than the width.
class LimitedElimination {
 public:
  struct Answer {
    Cost bound = 0;  ///< no choice within the limits costs less, up to the goal
    /// Cheaper than the goal and within the limits.
    std::optional<std::vector<int>> choice = std::nullopt;
    bool is_exact = false;   ///< the choice is the cheapest, or none is cheaper than the goal
    double comparisons = 0;  ///< made
  };

  /// nullopt where all tables together would have more cells, or the deadline came. Prices are by
  /// time, what a unit of usage is worth; the better, the fewer labels. Costs must be at least 0,
  /// usage compressed (usage_rows.h); the problem must outlive it.
  static std::optional<LimitedElimination> make(const AssignmentProblem& problem,
                                                std::vector<double> prices, double most_cells,
                                                const Deadline& deadline,
                                                const SolverParameters::Work& rates = {});
  Answer run(const LabelOptions& options) const;

 private:
  /// By the strategies of a bucket's separator.
  struct Table {
    std::vector<double> joint;       ///< by the bucket's cells, what is behind pays at least
    std::vector<double> message;     ///< the least of it
    std::vector<double> completion;  ///< what the rest pays at least
  };
  class Run;

  LimitedElimination(const AssignmentProblem& problem, std::vector<double> prices, BucketTree tree);
  double price_of_usage(int i, std::size_t s) const;
  double limits_price() const;
  Cost bound_of(double priced) const;
  bool bound_priced(const Deadline& deadline, double cells_a_second);
  void complete_children(std::size_t k);

  const AssignmentProblem* problem_;
  std::vector<double> prices_;
  BucketTree tree_;
  std::vector<UsageSlots> slots_;  ///< by bucket
  std::vector<Table> tables_;      ///< by bucket
  double total_ = 0;               ///< the least that a choice costs and pays
};

}  // namespace autopar::assignment
