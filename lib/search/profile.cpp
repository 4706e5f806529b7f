#include "search/profile.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace autopar::search {

namespace {

void check_profiles_of_pins(const std::vector<Pin>& pins, std::span<const Profile> profiles) {
  std::vector<std::string> names;
  for (const Profile& profile : profiles) names.push_back(profile.name);
  Problems problems;
  for (const Pin& pin : pins) {
    if (!pin.profile || std::ranges::find(names, *pin.profile) != names.end()) continue;
    if (profiles.size() == 1)
      problems.add(
          "--strategy pins '{}' in profile '{}', but there is one profile alone, which has "
          "no name",
          pin.name, *pin.profile);
    else
      problems.add("--strategy pins '{}' in profile '{}'; the profiles are '{}'", pin.name,
                   *pin.profile, fmt::join(names, "', '"));
  }
  problems.throw_if_any();
}

}  // namespace

ProfilesOn::ProfilesOn(const sharding::DeviceMesh& mesh, std::span<const Profile> of)
    : profiles(of.begin(), of.end()) {
  for (Profile& profile : profiles) {
    profile.cost = &costs.emplace_back(profile.cost->device(), mesh);
    profile.near = {};
  }
}

std::vector<std::vector<Pin>> pins_by_profile(const std::vector<Pin>& pins,
                                              std::span<const Profile> profiles) {
  check_profiles_of_pins(pins, profiles);
  std::vector<std::vector<Pin>> own(profiles.size());
  for (const Pin& pin : pins) {
    bool is_used = false;
    for (std::size_t p = 0; p < profiles.size(); ++p) {
      const bool is_for_it =
          pin.profile ? pin.profile == profiles[p].name
                      : profiles.size() == 1 || names_anything(pin, profiles[p].stage->graph);
      if (is_for_it) own[p].push_back(pin);
      is_used |= is_for_it;
    }
    if (!is_used) own.front().push_back(pin);
  }
  return own;
}

}  // namespace autopar::search
