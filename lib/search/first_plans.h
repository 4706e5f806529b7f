#pragma once

#include "search/plan_task.h"

namespace autopar::search {

// Plans that an exact search begins with.

/// Whether the recursive search takes a small part of the time limit.
bool is_recursive_quick(const PlanTask& task);

/// Lets the exact search go on from what the recursive one finds.
void start_from_recursive(const PlanTask& task, Incumbent& incumbent);

/// Considers that plan where it is cheaper than the incumbent. Predicting what it needs takes long,
/// and mostly the exact search has found a better one that fits.
void consider_recursive(const PlanTask& task, Incumbent& incumbent);

/// Lets the exact search go on from the task's plan on a coarser mesh, or from one that is searched
/// now where there is none or its axes are others. Pins are for this mesh alone: with them there is
/// none.
void start_from_coarser(const PlanTask& task, Incumbent& incumbent);

}  // namespace autopar::search
