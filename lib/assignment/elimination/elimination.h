#pragma once

#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// The cheapest choice without regard to limits, by bucket elimination (bucket_tree.h). nullopt
/// where some table would have more than `most_cells` cells, or where no choice is possible. Sums
/// of all costs must stay below `impossible`.
std::optional<Choice> choose_by_elimination(const AssignmentProblem& problem, double most_cells);

}  // namespace autopar::assignment
