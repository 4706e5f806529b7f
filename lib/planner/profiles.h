#pragma once

#include <string>
#include <vector>

#include "planner/planner.h"

namespace autopar::planner {

/// What ModelOptions say of one profile.
struct ProfileOptions {
  std::string binding{};  ///< what tells it from others, "sequence=128"; see LoadedProfile
  double weight = 1;
  std::vector<std::string> shapes{};  ///< as ModelOptions::shapes, each of one value
};

/// The profiles that the options ask for. A list in `shapes`, "sequence=1,128", gives each of its
/// values to a profile; lists go together by position, what is no list is for all. Throws Error,
/// all that is wrong at once: lists of different lengths, profiles that are alike, weights that are
/// too many, too few or not above 0.
std::vector<ProfileOptions> profiles_of(const ModelOptions& options);

}  // namespace autopar::planner
