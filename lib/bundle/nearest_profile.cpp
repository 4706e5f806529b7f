#include "bundle/nearest_profile.h"

#include <algorithm>
#include <cmath>

namespace autopar::bundle {
namespace {

/// The sum of all extents' ratios, as logarithms.
double distance(const ProfileInfo& profile, const std::map<std::string, graph::Shape>& inputs) {
  double sum = 0;
  for (const PortInfo& port : profile.inputs) {
    const auto wanted = inputs.find(port.name);
    if (wanted == inputs.end() || wanted->second.size() != port.shape.size()) continue;
    for (std::size_t d = 0; d < port.shape.size(); ++d)
      sum += std::abs(std::log((1.0 + static_cast<double>(wanted->second[d])) /
                               (1.0 + static_cast<double>(port.shape[d]))));
  }
  return sum;
}

}  // namespace

std::size_t nearest_profile(const MetaInfo& info,
                            const std::map<std::string, graph::Shape>& inputs) {
  const auto nearest = std::ranges::min_element(
      info.profiles, {}, [&](const ProfileInfo& each) { return distance(each, inputs); });
  return static_cast<std::size_t>(nearest - info.profiles.begin());
}

}  // namespace autopar::bundle
