#pragma once

#include <span>
#include <vector>

#include "sharding/op_shard_spec.h"

namespace autopar::sharding {

/// Drops the choices that use a mesh axis that is not `free` otherwise than the plan does: by
/// another factor, or in another place of some tensor. The order in which axes split one dimension
/// is no difference.
void keep_near(std::vector<OpShardSpec>& choices, const OpShardSpec& plan, int num_axes,
               std::span<const int> free);
void keep_near(std::vector<TensorShardSpec>& choices, const TensorShardSpec& plan, int num_axes,
               std::span<const int> free);

}  // namespace autopar::sharding
