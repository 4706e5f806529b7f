#pragma once

#include <optional>
#include <vector>

#include "assignment/elimination/limited_elimination.h"

namespace autopar::assignment {

struct LabelSearchOptions {
  Cost goal = impossible;                           ///< only choices that cost less are looked for
  std::optional<double> most_cells = std::nullopt;  ///< of all tables; or the parameters'
  std::optional<double> most_comparisons = std::nullopt;  ///< of labels; or the parameters'
  Deadline deadline = {};
};

/// Presolves a problem and eliminates the core (limited_elimination.h) with ever longer lists of
/// labels, until none is dropped or the comparisons are used up. Counts work on the deadline's
/// clock. `prices` are by time, of a unit of usage. nullopt where tables become too large or time
/// runs out. Sums of all costs must stay below `impossible`.
std::optional<LabelAnswer> search_labels(AssignmentProblem problem, std::vector<double> prices,
                                         const LabelSearchOptions& options,
                                         const SolverParameters& parameters = {});

}  // namespace autopar::assignment
