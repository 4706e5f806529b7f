#include "planner/profile_info.h"

#include <algorithm>

namespace autopar::planner {

namespace {

using graph::Graph;
using graph::ValueId;
using plan::PipelinePlan;

/// `ports`: which of a stage's inputs or outputs are the model's.
bundle::PortInfo port_info(const graph::Value& value, const PipelinePlan& plan,
                           std::vector<ValueId> graph::StageGraph::*ports,
                           const std::map<std::string, bundle::BatchInfo>& batch) {
  bundle::PortInfo port{.name = value.name, .type = value.type, .shape = value.shape};
  if (const auto cut = batch.find(value.name); cut != batch.end()) port.batch = cut->second;
  for (const plan::StagePlan& stage : plan.stages) {
    const Graph& graph = stage.stage.graph;
    const std::vector<ValueId>& own = stage.stage.*ports;
    const auto has_its_name = [&](ValueId id) { return graph.value(id).name == value.name; };
    const auto id = std::ranges::find_if(own, has_its_name);
    if (id == own.end()) {
      port.specs.emplace_back();
      port.ranges.resize(port.ranges.size() + stage.num_devices());  // its ranks have none of it
      continue;
    }
    const sharding::TensorShardSpec& spec = stage.plan.spec_of(graph, *id);
    port.specs.push_back(to_string(spec));
    for (int rank = 0; rank < stage.num_devices(); ++rank)
      port.ranges.push_back(
          sharding::local_ranges(spec, graph.value(*id).shape, stage.plan.mesh, rank));
  }
  return port;
}

}  // namespace

bundle::ProfileInfo profile_info(const Graph& whole,
                                 const std::map<std::string, bundle::BatchInfo>& batch,
                                 const PipelinePlan& plan,
                                 const program::PipelineProgram& program) {
  bundle::ProfileInfo profile;
  profile.cost_seconds = plan.predicted.cost_seconds;
  profile.transfers = program::transfer_infos(program);
  for (const ValueId input : whole.inputs)
    profile.inputs.push_back(
        port_info(whole.value(input), plan, &graph::StageGraph::model_inputs, batch));
  for (const ValueId output : whole.outputs)
    profile.outputs.push_back(
        port_info(whole.value(output), plan, &graph::StageGraph::model_outputs, batch));
  profile.collectives = program::collective_totals(plan, program);
  return profile;
}

}  // namespace autopar::planner
