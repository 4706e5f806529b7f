#pragma once

#include "assignment/subproblem.h"

namespace autopar::assignment {

/// Relaxes a component, fixes by reduced cost, and solves what is left: as a whole where little is
/// left, else in two branches, with one strategy of a node and without it.
Incumbent branch(const Subproblem& component, SolveContext& context);

}  // namespace autopar::assignment
