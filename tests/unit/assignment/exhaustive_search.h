#pragma once

#include <optional>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// The least cost of the choices within the limits, `impossible` where there are none; nullopt
/// where it would take more than so many steps. It makes all choices node by node and, of those
/// that what is still to come cannot tell apart, keeps the ones that no other one beats in cost and
/// in room under the limits. It shares the types with the library, and nothing else.
std::optional<Cost> least_cost(const AssignmentProblem& problem, double most_steps);

/// A choice's cost and whether it is within the limits, summed up by definition alone.
struct Price {
  Cost cost = 0;  ///< `impossible` where a strategy or pair is
  bool is_within_limits = true;
};
Price price_of_choice(const AssignmentProblem& problem, const Choice& choice);

}  // namespace autopar::assignment
