#pragma once

#include <optional>
#include <span>
#include <vector>

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

/// The plan that has these strategies, by profile, with what it costs and needs; nullopt where it
/// does not fit.
std::optional<JointPlan> plan_with(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                                   const SearchOptions& options,
                                   const std::vector<plan::Plan>& strategies);

}  // namespace autopar::search
