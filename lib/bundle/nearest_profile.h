#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "bundle/meta_info.h"

namespace autopar::bundle {

/// The number of the profile whose inputs are most like these, by the ratios of extents; the first
/// of equal ones. Inputs that are absent say nothing.
std::size_t nearest_profile(const MetaInfo& info,
                            const std::map<std::string, graph::Shape>& inputs);

}  // namespace autopar::bundle
