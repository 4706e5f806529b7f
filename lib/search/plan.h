#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "sharding/op_shard_spec.h"

namespace autopar::search {

/// What the search says of its plan. Predictions are the cost model's.
struct PlanSummary {
  std::string search = "ilp";
  double search_seconds = 0;  ///< all of the search, the solver included
  double solver_seconds = 0;
  double cost_seconds = 0;         ///< a run of the plan
  double lower_bound_seconds = 0;  ///< no plan of the strategy space costs less
  bool proven_optimal = false;
  double communication_seconds = 0;  ///< the part of cost_seconds in collectives and slices
  std::int64_t weight_bytes = 0;     ///< on the fullest rank
  std::int64_t peak_bytes = 0;       ///< weights and activations on the fullest rank, as searched
  double one_device_seconds = 0;     ///< the whole model on one device, by the same model
  std::int64_t one_device_bytes = 0;
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

/// One entry of a strategy file: which operators, and what must hold of their strategy. `name` is
/// an operator's name or a glob over names (`*`, `?`); it may also name a model input or weight,
/// whose `outputs` then has the one spec in which it lies. Fields left out allow anything. Where
/// several entries match an operator, the last one that does counts.
struct Pin {
  std::string name;
  std::optional<std::vector<sharding::TensorShardSpec>> inputs;
  std::optional<std::vector<sharding::TensorShardSpec>> outputs;
  std::optional<std::vector<sharding::ReduceFunction>> reductions;
};

/// Reads {"operators": [{"name": "...", "inputs": ["RS0", ...], "outputs": [...],
/// "reductions": [...]}]}. Throws Error naming file and entry.
std::vector<Pin> load_pins(const std::filesystem::path& file);

/// plan.json's text: mesh, device and summary for a person, and under "operators" an entry for
/// every operator and every stored tensor in the form that load_pins reads.
std::string plan_json(const graph::Graph& graph, const Plan& plan);

}  // namespace autopar::search
