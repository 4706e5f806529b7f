#pragma once

#include <span>

#include "base/stopwatch.h"
#include "search/search_plan.h"

namespace autopar::search {

/// On more mesh axes, steps of descent take too long, too.
inline constexpr int most_axes_of_descent = 6;
/// On more mesh axes, so does the relaxation that does not tell symmetric axes apart.
inline constexpr int most_axes_of_relaxation = 6;

/// Whether the mesh has three axes or more, and neither pins nor other meshes nor a given plan say
/// how they are used.
bool can_descend(std::span<const Profile> profiles, const SearchOptions& options);

/// Whether that is so, and the problem of all strategies would take too much of the time limit to
/// build, or a quick method to go through.
bool is_too_large_to_build(std::span<const Profile> profiles, const SearchOptions& options);

/// A plan found by descent, where can_descend. On three axes it begins with the plan of the problem
/// of all strategies whose copies are relaxed (relaxations.h), for small models only where
/// forms that do not tell symmetric axes apart are not the answer. On more, it begins with the
/// cheapest of: the best of such forms; what a search finds on a coarser mesh, where the forms are
/// far from the bound; and `coarser` or, where that is null or of no coarser mesh, the recursive
/// plan on one axis; with `coarser` alone where the problem is too large to build and it has two
/// axes or more. Steps of descent_steps.h follow, unless the plan is proven to `small_gap`. The
/// bound is that of the relaxation; without one, that of the operators alone. Where no step finds a
/// plan, on more than most_axes_of_descent axes, and for a quick method, it is the plan of a
/// coarser mesh. Throws NothingFits where that has none, proven of nothing.
JointPlan search_by_descent(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                            const SearchOptions& options, const JointPlan* coarser);

}  // namespace autopar::search
