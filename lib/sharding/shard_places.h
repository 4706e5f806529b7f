#pragma once

#include <optional>
#include <vector>

#include "sharding/device_mesh.h"
#include "sharding/tensor_shard_spec.h"

namespace autopar::sharding {

/// Where a tensor's shares are, told without mesh axes.
struct ShardPlaces {
  std::vector<int> shards;               ///< by dimension: into how many it is cut
  std::vector<std::vector<int>> shares;  ///< by rank and dimension: which of them it has

  friend bool operator==(const ShardPlaces&, const ShardPlaces&) = default;
};

/// Those of a spec; what is partial is taken for replicated.
ShardPlaces shard_places(const TensorShardSpec& spec, const DeviceMesh& mesh);

/// The spec that has the shares there, without axes of size 1; nullopt where none has.
std::optional<TensorShardSpec> spec_with_places(const ShardPlaces& places, const DeviceMesh& mesh);

}  // namespace autopar::sharding
