#pragma once

#include <vector>

#include "bundle/meta_info.h"
#include "cost/cost_model.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace autopar::program {

/// One value in one spec: as its producer leaves it or as it is stored (its *base* version), as
/// some operator reads it, or on the way between the two. No spec has an axis of size 1.
struct Version {
  graph::ValueId value = graph::no_value;
  sharding::TensorShardSpec spec;
  bool is_base = false;
};
using VersionId = int;

/// One step of the program that every rank runs: an operator on local shards, or one slice or
/// collective that turns a version into another.
struct Instruction {
  graph::NodeId node = graph::no_node;  ///< the operator, or no_node for a reshard step
  sharding::ReshardStep step;           ///< where node is no_node
  std::vector<VersionId> inputs;        ///< -1 for one left out
  std::vector<VersionId> outputs;       ///< -1 for one left out

  bool is_collective() const {
    return node == graph::no_node && step.kind != sharding::StepKind::slice;
  }
};

/// A plan as one program, still for all ranks at once, so that all have the same collectives in the
/// same order. Graph, mesh and strategies are the plan's, but for operators that are decomposed
/// (sharding/decomposition.h). Each version of a tensor that operators read is made once, where the
/// first of them reads it, by a chain of steps from the base version: what the search priced.
struct Program {
  graph::Graph graph;
  sharding::DeviceMesh mesh{{1}};
  std::vector<sharding::OpShardSpec> operators;  ///< by NodeId
  std::vector<Version> versions;
  std::vector<Instruction> instructions;
  std::vector<VersionId> inputs;   ///< by model input
  std::vector<VersionId> outputs;  ///< by model output, never partial

  /// The value that a reshard step works on.
  const graph::Value& value_of(const Instruction& step) const {
    return graph.value(versions[step.inputs[0]].value);
  }
};

/// `cost` must be the one that the plan was searched with, so that the same chains are chosen.
/// Small integer vectors (shapes, axes, pads) are whole on every rank whatever the plan stores,
/// since operators need them when they are compiled.
Program lower(const graph::Graph& graph, const plan::Plan& plan, const cost::CostModel& cost);

/// One rank's graph: local shapes, weights as slices (views) of the model's, collectives as nodes
/// of the domain "autopar", in the program's order, which all ranks share. Base versions, and so
/// model inputs and outputs, keep their names; others are called after value and spec, "x@RS0".
/// `rank` is that on the program's mesh; in collectives the mesh's ranks count from `first_rank`
/// on.
graph::Graph rank_graph(const Program& program, int rank, int first_rank = 0);

/// The communication of a run of the program, over all ranks.
std::vector<bundle::CollectiveTotal> collective_totals(const Program& program);

/// The entry of this kind and axes, by which entries are sorted; inserted where there is none.
plan::CollectiveUse& use_of(std::vector<plan::CollectiveUse>& uses, const std::string& kind,
                            const std::vector<int>& mesh_axes);

/// The same for a report, by kind and axes: with slices, and with the seconds that the cost model
/// predicts, if there is one.
std::vector<plan::CollectiveUse> collective_uses(const Program& program,
                                                 const cost::CostModel* cost);

}  // namespace autopar::program
