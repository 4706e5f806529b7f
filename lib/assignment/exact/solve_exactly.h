#pragma once

#include <optional>

#include "assignment/subproblem.h"

namespace autopar::assignment {

/// Solves a component at once where that is known to be quick: by elimination, by GLPK (which may
/// stop at the deadline), or by labels. nullopt where it is too large for all of them.
std::optional<Incumbent> solve_exactly(const Subproblem& component, SolveContext& context);

}  // namespace autopar::assignment
