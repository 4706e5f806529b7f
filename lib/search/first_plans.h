#pragma once

#include <optional>
#include <span>

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

/// A search on several axes takes at least so many times what plan_on_one_axis does.
inline constexpr double least_times_of_one_axis = 3;

/// What the recursive search finds with all devices on one axis, in a small part of a second for
/// most models; nullopt where it finds nothing that fits.
std::optional<JointPlan> plan_on_one_axis(std::span<const Profile> profiles,
                                          const SearchOptions& options);

}  // namespace autopar::search
