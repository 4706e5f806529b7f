#pragma once

#include <optional>
#include <vector>

#include "search/assignment_problem.h"
#include "search/stopwatch.h"

namespace autopar::search {

struct LimitedEliminationOptions {
  /// By time, what a unit of usage is worth; the better, the fewer labels.
  std::vector<double> prices;
  Cost goal = impossible;  ///< choices that cost as much are of no interest
  /// Labels whose costs differ by less may be taken for one another: the answer is then that much
  /// off for each node.
  Cost tolerance = 0;
  double most_cells = 2e7;   ///< of all tables together
  double most_labels = 8e6;  ///< of all tables together
  Deadline deadline = {};
};

struct LimitedElimination {
  Cost bound = 0;           ///< no choice within the limits costs less, up to the goal
  std::vector<int> choice;  ///< cheaper than the goal and within the limits, or empty
};

/// Solves problems under few limits whose graphs are nearly trees, as bucket elimination does, with
/// all pairs of cost and usage in the tables that may lead below the goal. The limits that matter
/// most are tried first, others where the answer exceeds them. The answer is exact, but for the
/// tolerance, where there is a choice or the bound is the goal; tables and labels may have become
/// too many otherwise. nullopt where nothing was learnt. Costs must be at least 0, usage compressed
/// (usage_rows.h).
std::optional<LimitedElimination> eliminate_under_limits(const AssignmentProblem& problem,
                                                         const LimitedEliminationOptions& options);

}  // namespace autopar::search
