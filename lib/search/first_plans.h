#pragma once

#include "search/plan_task.h"

namespace autopar::search {

// Plans that an exact search begins with.

/// Whether the recursive search takes a small part of the time limit.
bool is_recursive_quick(const PlanTask& task);

/// Considers what the recursive search finds, and lets the exact one go on from it.
void consider_recursive_plan(const PlanTask& task, Incumbent& incumbent);

/// Lets the exact search go on from the task's plan on a coarser mesh, or from one that is searched
/// now where there is none or its axes are others. Pins are for this mesh alone: with them there is
/// none.
void start_from_coarser(const PlanTask& task, Incumbent& incumbent);

}  // namespace autopar::search
