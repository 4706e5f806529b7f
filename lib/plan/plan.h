#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "sharding/op_shard_spec.h"

namespace autopar::plan {

/// What the cost model predicts of a run of a plan.
struct Prediction {
  double cost_seconds = 0;
  double communication_seconds = 0;  ///< the part of cost_seconds in collectives and slices
  std::int64_t weight_bytes = 0;     ///< on the fullest rank
  std::int64_t peak_bytes = 0;       ///< weights and activations on the fullest rank
};

/// All steps of one kind over one set of mesh axes, in a run of a plan.
struct CollectiveUse {
  std::string kind;  ///< "all-reduce", ...; "slice" too, which takes time but sends nothing
  std::vector<int> mesh_axes;
  std::int64_t times = 0;
  std::int64_t bytes = 0;  ///< payload, over all ranks
  double seconds = 0;
  friend bool operator==(const CollectiveUse&, const CollectiveUse&) = default;
};

/// A strategy for every operator, and where inputs and weights lie.
struct Plan {
  sharding::DeviceMesh mesh{{1}};
  std::vector<sharding::OpShardSpec> operators;                ///< by NodeId
  std::map<graph::ValueId, sharding::TensorShardSpec> stored;  ///< model inputs and constants
  std::string device;
  Prediction predicted;

  /// The spec in which a value is left by its producer, or stored.
  const sharding::TensorShardSpec& spec_of(const graph::Graph& graph, graph::ValueId value) const;
};

}  // namespace autopar::plan
