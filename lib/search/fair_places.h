#pragma once

#include "search/plan_builder.h"

namespace autopar::search {

/// Forbids, in a copy of the built problem, the places that would give a weight more than its share
/// of what the limit at rest allows all weights, over the first `num_axes` mesh axes alone. Small
/// weights may lie anywhere while that leaves room. Whatever places are then chosen, the limit at
/// rest holds, as far as it can.
void forbid_unfair_places(const PlanProblem& built, const sharding::DeviceMesh& mesh, int num_axes,
                          assignment::AssignmentProblem& problem);

}  // namespace autopar::search
