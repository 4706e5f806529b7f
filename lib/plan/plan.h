#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/stage_graph.h"
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

/// The objective of a plan: the time of one run, or runs a second where one follows another.
enum class Objective { latency, throughput };
std::string_view name_of(Objective objective);  ///< "latency", "throughput"

/// One stage of a pipeline: its part of the model for one microbatch, on its own submesh, the
/// `plan.mesh.num_devices()` ranks from `first_rank` on.
struct StagePlan {
  graph::StageGraph stage;
  int first_rank = 0;
  Plan plan;                    ///< of stage.graph; its cost is that of one microbatch
  double transfer_seconds = 0;  ///< of one microbatch, to the stage behind

  int num_devices() const { return plan.mesh.num_devices(); }
};

/// A model in stages, in order, each with the ranks behind those of the stage before. What arrives
/// at a stage is stored there in a receive spec (sharding/cross_mesh.h). One stage and one
/// microbatch is the plan of the whole model.
struct PipelinePlan {
  std::vector<StagePlan> stages;
  int microbatches = 1;
  Objective objective = Objective::latency;
  /// For all stages: the cost is pipeline_seconds; weights and peak are the fullest rank's.
  Prediction predicted;

  int num_devices() const;
  bool is_pipeline() const { return stages.size() > 1 || microbatches > 1; }
};

/// A run of `microbatches` through stages and the links between them, each of which works on one
/// microbatch at a time: the sum of their times, and for every further microbatch the slowest one's
/// (Alpa, OSDI 22, equation 2, with transfers as stages). Under throughput, `microbatches` times
/// the slowest one's.
double pipeline_seconds(const PipelinePlan& plan);

/// What the stages' own predictions come to.
Prediction pipeline_prediction(const PipelinePlan& plan);

/// A plan of the whole model as a pipeline of one stage and one microbatch.
PipelinePlan one_stage_plan(const graph::Graph& graph, Plan plan);

}  // namespace autopar::plan
