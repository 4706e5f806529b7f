#pragma once

#include <string>

#include "bundle/meta_info.h"

namespace autopar::bundle {

/// Throws Error, which begins with `where`, for what contradicts something else in meta-info.json
/// or cannot be. It knows all that can be known without the shards: ranks and stages are numbered
/// through, coordinates and groups are those of the meshes, a port's ranges are what its spec says
/// of its shape, microbatches cut all ports alike, all profiles have the same ports, messages lead
/// from a stage to the next one, states and the tail name ports, files have the names that a bundle
/// gives them, and numbers are within reason.
void check_meta_info(const MetaInfo& info, const std::string& where);

}  // namespace autopar::bundle
