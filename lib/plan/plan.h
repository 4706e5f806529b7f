#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "sharding/op_shard_spec.h"

namespace autopar::plan {

/// What became of one of several meshes that were searched.
struct MeshTrial {
  sharding::DeviceMesh mesh;
  std::optional<double> cost_seconds{};  ///< of its plan
  double lower_bound_seconds = 0;        ///< infinite where it is proven to have no plan
  std::string refusal{};  ///< why it has no plan; neither this nor a cost: there was no time
};

/// What the search says of its plan. Predictions are the cost model's.
struct PlanSummary {
  std::string search = "ilp";
  double search_seconds = 0;       ///< all of the search
  double glpk_seconds = 0;         ///< the part of search_seconds in GLPK
  double cost_seconds = 0;         ///< a run of the plan
  double lower_bound_seconds = 0;  ///< no plan of the strategy space costs less
  bool proven_optimal = false;
  bool bound_is_searched = true;  ///< false: the sum of the operators' least costs, which is free
  double communication_seconds = 0;  ///< the part of cost_seconds in collectives and slices
  std::int64_t weight_bytes = 0;     ///< on the fullest rank
  std::int64_t peak_bytes = 0;       ///< weights and activations on the fullest rank
  double one_device_seconds = 0;     ///< the whole model on one device, by the same model
  std::int64_t one_device_bytes = 0;
  std::vector<MeshTrial> meshes;  ///< empty where only one was asked for
  // Of a search of stages (stages/search_pipeline.h):
  double epsilon = 0;       ///< cost_seconds may be so much, as a part of it, above the best
  int layers = 0;           ///< between which stages may be cut
  int stages_searched = 0;  ///< stages on a mesh whose best plan was searched
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
  PlanSummary summary;

  /// The spec in which a value is left by its producer, or stored.
  const sharding::TensorShardSpec& spec_of(const graph::Graph& graph, graph::ValueId value) const;
};

}  // namespace autopar::plan
