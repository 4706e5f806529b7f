#pragma once

#include <span>

#include "base/stopwatch.h"
#include "search/search_plan.h"

namespace autopar::search {

/// On more mesh axes, steps of descent take too long, too.
inline constexpr int most_axes_of_descent = 5;
/// And on more than so many the relaxation without symmetric axes.
inline constexpr int most_axes_of_relaxation = 6;

/// Whether the problem of all strategies would take too much of the time limit to build, or a quick
/// method to go through, and a coarser mesh can be searched in its place.
bool is_too_large_to_build(std::span<const Profile> profiles, const SearchOptions& options);

/// A plan found by descent, for meshes whose problem of all strategies is too large. It begins with
/// `coarser`, or where that is null, of one axis or of no coarser mesh, with the cheapest of: the
/// best of the relaxation's forms (search_by_symmetry.h), what a search finds on a coarser mesh,
/// where the forms are far from the bound, and the recursive plan on one axis (or `coarser`, of
/// one). Steps of descent_steps.h follow. The bound is that of the relaxation; without one, as
/// where it begins with `coarser` or no axes are symmetric, that of the operators alone. Where no
/// step finds a plan, on more than most_axes_of_descent axes, and for a quick method, it is the
/// plan of the coarser mesh. Throws NothingFits where that has none, proven of nothing.
JointPlan search_by_descent(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                            const SearchOptions& options, const JointPlan* coarser);

}  // namespace autopar::search
