#pragma once

#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "cost/device_model.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "program/memory_prediction.h"
#include "sharding/cross_mesh.h"

namespace autopar::program {

/// A value that one stage sends to the next in one microbatch.
struct Transfer {
  std::string value;
  int from_stage = 0;
  graph::DataType type = graph::DataType::undefined;
  graph::Shape shape;
  std::vector<sharding::Message> messages;  ///< between ranks of the world

  std::int64_t bytes(const sharding::Message& message) const;
};

/// A pipeline's plan as programs: each stage for all of its ranks, and what goes from each to the
/// next, in the order in which it is sent and received.
struct PipelineProgram {
  std::vector<Program> stages;
  std::vector<Transfer> transfers;
};

/// `device` must be that of the search, so that the same chains are chosen.
PipelineProgram lower(const plan::PipelinePlan& plan, const cost::DeviceModel& device);

/// The stage in which a rank of the world works.
std::size_t stage_of(const plan::PipelinePlan& plan, int rank);

/// A rank's graph for one microbatch: its stage's (lowering.h), with Recv nodes first, where a
/// stage has one before it, and Send nodes last.
graph::Graph rank_graph(const plan::PipelinePlan& plan, const PipelineProgram& program, int rank);

/// The communication of a run of all microbatches, over all ranks: collectives within the stages'
/// meshes, and what is sent across, a message a call.
std::vector<bundle::CollectiveTotal> collective_totals(const plan::PipelinePlan& plan,
                                                       const PipelineProgram& program);
/// The same for a report, with slices and predicted seconds.
std::vector<plan::CollectiveUse> collective_uses(const plan::PipelinePlan& plan,
                                                 const PipelineProgram& program,
                                                 const cost::DeviceModel& device);

/// The transfers as meta-info.json has them.
std::vector<bundle::TransferInfo> transfer_infos(const PipelineProgram& program);

/// Bytes on the fullest rank of a stage, or of a model that is its own only stage
/// (graph::whole_stage): weights, activations, and what microbatches in flight take beside these.
/// `device` must be that of the search.
std::int64_t predict_peak_bytes(const graph::StageGraph& stage, const plan::Plan& plan,
                                const cost::DeviceModel& device, int microbatches = 1,
                                const RunBytes& run_bytes = most_run_bytes);

}  // namespace autopar::program
