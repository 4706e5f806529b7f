#pragma once

#include <span>
#include <vector>

#include "sharding/op_shard_spec.h"

namespace autopar::sharding {

/// Drops the choices that use more than `most` of the mesh's axes otherwise than each of the
/// `plans` does: by other factors, or in another place of some tensor. The order in which axes
/// split one dimension is no difference.
void keep_near(std::vector<OpShardSpec>& choices, std::span<const OpShardSpec* const> plans,
               int num_axes, int most);
void keep_near(std::vector<TensorShardSpec>& choices, std::span<const TensorShardSpec* const> plans,
               int num_axes, int most);

}  // namespace autopar::sharding
