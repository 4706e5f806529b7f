#pragma once

#include <span>
#include <string>

#include "search/plan_builder.h"
#include "search/profile.h"

namespace autopar::search {

/// Where the device's collectives are fewer than all, and nothing fits: what stands against a plan,
/// to be put behind the reason. First a tensor that no collectives bring from any strategy of its
/// producer to any of a reader; else the largest weight that every rank needs whole, though it
/// could be split with all collectives. Empty where all collectives are there.
std::string what_stands_against(std::span<const Profile> profiles, const PlanProblem& built);

}  // namespace autopar::search
