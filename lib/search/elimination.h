#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "search/assignment_problem.h"

namespace autopar::search {

/// The cheapest choice, limits left aside. nullopt where some table would have more than
/// `most_cells` cells, or where no choice is possible. Sums of all costs must stay below
/// `impossible`.
std::optional<std::vector<int>> choose_by_elimination(const AssignmentProblem& problem,
                                                      std::size_t most_cells);

}  // namespace autopar::search
