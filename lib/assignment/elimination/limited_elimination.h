#pragma once

#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/elimination/bucket_tree.h"
#include "assignment/elimination/usage_slots.h"

namespace autopar::assignment {

class LabelMaker;
struct Labels;

/// Limits of one elimination.
struct LabelOptions {
  Cost goal = impossible;             ///< only choices that cost less are looked for
  std::size_t width = 1'000'000'000;  ///< the most labels in a table's cell
  double most_comparisons = 1e18;     ///< of labels
  double comparisons_between_looks = SolverParameters::Labels{}.comparisons_between_looks;
  Deadline deadline = {};
};

struct LabelAnswer {
  Cost bound = 0;  ///< no choice within the limits costs less, up to the goal
  std::optional<Choice> choice = std::nullopt;  ///< cheaper than the goal, within limits
  bool is_exact = false;   ///< the choice is the cheapest, or none is cheaper than the goal
  double comparisons = 0;  ///< made
};

/// Bucket elimination under limits, for graphs of small treewidth: a table's cell holds labels,
/// pairs of cost and usage that may lead below a goal. Where they are more than the width, those
/// of the least priced cost are kept.
class LimitedElimination {
 public:
  /// nullopt where all tables together would have more cells, or the deadline came. Prices are by
  /// time, of a unit of usage; good ones leave few labels. Costs must be at least 0, usage
  /// compressed (usage_rows.h); the problem must outlive it.
  static std::optional<LimitedElimination> make(const AssignmentProblem& problem,
                                                std::vector<double> prices, double most_cells,
                                                const Deadline& deadline,
                                                const SolverParameters::Work& rates = {});
  LabelAnswer run(const LabelOptions& options) const;

 private:
  /// A bucket's bounds under the prices.
  struct Table {
    std::vector<double> joint;    ///< by the bucket's cells, the least priced cost of its subtree
    std::vector<double> message;  ///< by the separator's, the least of that
    std::vector<double> completion;  ///< the least priced cost of all else
  };
  /// By bucket and the strategies of its separator.
  using LabelTables = std::vector<std::vector<Labels>>;

  LimitedElimination(const AssignmentProblem& problem, std::vector<double> prices, BucketTree tree);
  double price_of_usage(int i, std::size_t s) const;
  double limits_price() const;
  Cost bound_of(double priced) const;
  bool bound_priced(const Deadline& deadline, double cells_a_second);
  void complete_children(std::size_t k);
  std::vector<Labels> labels_of_bucket(std::size_t k, const LabelTables& labels,
                                       LabelMaker& maker) const;
  Labels labels_of_cell(std::size_t k, const std::vector<std::size_t>& places, std::size_t s,
                        int trace, double paid, const LabelTables& tables, LabelMaker& maker) const;

  const AssignmentProblem* problem_;
  std::vector<double> prices_;
  BucketTree tree_;
  std::vector<UsageSlots> slots_;  ///< by bucket
  std::vector<Table> tables_;      ///< by bucket
  double total_ = 0;               ///< the least priced cost of a choice
};

}  // namespace autopar::assignment
