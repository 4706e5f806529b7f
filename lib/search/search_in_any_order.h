#pragma once

#include <span>

#include "base/stopwatch.h"
#include "search/search_plan.h"

namespace autopar::search {

/// Whether a search has more to find than the problem of all strategies, in which mesh axes that
/// split one factor ascend: on two and three axes, of a graph of many operators.
bool is_worth_any_order(std::span<const Profile> profiles, const SearchOptions& options);

/// The cheapest plan in which axes may split a factor in any order, as far as steps of descent
/// (descent_steps.h) find it. They begin with the plan of search_whole_problem; on three axes with
/// the best plan of the relaxation's forms (search_by_symmetry.h), where that is near the bound.
/// Where the plan is cheaper than all whose axes ascend can be, its bound is the relaxation's,
/// which holds for any order; else that of search_whole_problem. Throws what search_plan does.
JointPlan search_in_any_order(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                              const SearchOptions& options, const JointPlan* coarser);

}  // namespace autopar::search
