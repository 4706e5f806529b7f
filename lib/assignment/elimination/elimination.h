#pragma once

#include <optional>
#include <vector>

#include "assignment/elimination/bucket_tree.h"

namespace autopar::assignment {

struct EliminationLimits {
  EliminationOrder order = EliminationOrder::fewest_cells;
  double most_cells_of_a_table = 1e18;
  Deadline deadline = {};
};

/// The cheapest choice without regard to usage, by bucket elimination (bucket_tree.h). nullopt
/// where some table would have more cells, where the deadline came, or where no choice is possible.
/// Costs of a node or an edge are not below -`impossible` / 2, and sums of all below `impossible`.
/// Adds to `looked_at` the cells that it fills; isomorphic parts, such as a model's repeated
/// layers, are eliminated once.
std::optional<Choice> choose_by_elimination(const AssignmentProblem& problem,
                                            const EliminationLimits& limits = {},
                                            double* looked_at = nullptr);

/// The cells that it would fill. nullopt where all tables together, those of isomorphic parts each
/// counted, would have more than `most_cells`.
std::optional<double> cells_to_eliminate(const AssignmentProblem& problem, double most_cells,
                                         EliminationOrder order = EliminationOrder::fewest_cells);

}  // namespace autopar::assignment
