#pragma once

#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// A choice within the limits that costs no more than `start`, if that is within them, by a fixed
/// number of sweeps, each linear in the problem. `start` may exceed the limits. nullopt where no
/// choice within them was met.
std::optional<Choice> descend(const AssignmentProblem& problem, Choice start, int rounds);

/// A node's place in a choice where none is made yet.
inline constexpr int open_node = -1;

/// The cheapest choice that has all of `partial` but its open nodes, without regard to limits.
/// nullopt where none is possible, or the tables of the open nodes become too large.
std::optional<Choice> complete(const AssignmentProblem& problem, Choice partial);
/// The same with all but the first `num_fixed` nodes open.
std::optional<Choice> complete(const AssignmentProblem& problem, const Choice& choice,
                               int num_fixed);

/// The cheapest choice that keeps the first `num_fixed` nodes where `complete` finds it within the
/// limits, else a choice repaired by descent. `narrowed` is the problem with fewer strategies,
/// which use less. nullopt where no repair was found.
std::optional<Choice> settle(const AssignmentProblem& problem, const AssignmentProblem& narrowed,
                             const Choice& choice, int num_fixed);

}  // namespace autopar::assignment
