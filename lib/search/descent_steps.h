#pragma once

#include <span>

#include "base/stopwatch.h"
#include "search/search_plan.h"

namespace autopar::search {

/// Steps of descent: each leads to the best plan that differs from the one before on one or two
/// axes (Neighbourhood), of all that fit. Returns the last plan, or the start where none is better;
/// that may be of a coarser mesh than the profiles', the others are not. Ends at the time limit, a
/// tenth of it and a second later at the latest where shards take long to predict.
///
/// Where the start leaves much of the devices' memory free, steps count what is at rest alone, and
/// what shards need is predicted of the last plan only: predictions would take most of the time.
JointPlan descend(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                  const SearchOptions& options, JointPlan start);

/// One step that frees all axes: the best plan in which axes that split a factor of an operator in
/// the start stand in its order, and others behind them, ascending; the start where that is better,
/// or none fits.
JointPlan solve_near(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                     const SearchOptions& options, JointPlan start);

}  // namespace autopar::search
