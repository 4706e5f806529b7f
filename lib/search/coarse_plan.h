#pragma once

#include <optional>
#include <span>
#include <vector>

#include "search/plan_builder.h"
#include "sharding/device_mesh.h"

namespace autopar::search {

/// How a coarser mesh comes from a finer one: each of its axes is a run of neighbouring finer axes.
/// {{0, 1}, {2}} makes 4x8 of 2x2x8, with the same devices in the same order.
using AxisRuns = std::vector<std::vector<int>>;

sharding::DeviceMesh coarse_mesh(const sharding::DeviceMesh& fine, const AxisRuns& runs);
/// nullopt where the axes of `fine` do not multiply up to those of `coarse`, one after the other.
std::optional<AxisRuns> runs_between(const sharding::DeviceMesh& coarse,
                                     const sharding::DeviceMesh& fine);

/// The axes of the mesh but two neighbours as runs of their own: the two with fewest devices that
/// both stay within a node or both leave it, the last ones of these; else the first two. At least
/// two axes.
AxisRuns with_one_axis_less(const cost::CostModel& fine);

/// The same plan on the finer mesh: what one axis splits, all axes of its run split. Predictions
/// are kept.
plan::Plan refined(plan::Plan coarse, const AxisRuns& runs, const sharding::DeviceMesh& fine);

/// The cheapest choice of the fine problem in which operators and stored tensors lie as in the
/// coarse one's: what one axis splits there, all axes of its run split here. Both problems are of
/// the same profiles. Limits are not looked at. nullopt where the fine problem lacks one of the
/// strategies.
std::optional<std::vector<int>> refined(const PlanProblem& coarse, const std::vector<int>& choice,
                                        const AxisRuns& runs, const PlanProblem& fine);

/// Whether the cheapest plan of all devices as one axis is known to be beyond the problem's limits,
/// so that those of its mesh probably are, too. Takes about so many seconds of time.
bool limits_bind_on_one_axis(const PlanProblem& built, std::span<const Profile> profiles,
                             const SearchOptions& options, double seconds);

/// A choice of the problem of these profiles, within its limits, as a plan on coarser meshes
/// suggests it: that of one axis begins the search on two, and so on. Takes about so many seconds
/// of time. nullopt where none is found, or there is only one axis.
std::optional<std::vector<int>> choose_from_coarser(const PlanProblem& built,
                                                    std::span<const Profile> profiles,
                                                    const SearchOptions& options, double seconds);

}  // namespace autopar::search
