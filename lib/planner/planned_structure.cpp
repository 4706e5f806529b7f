#include "planner/planned_structure.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cost/device_file.h"
#include "planner/device_fit.h"
#include "search/pins.h"

namespace autopar::planner {

namespace {

namespace fs = std::filesystem;
using graph::Graph;
using runtime::InputShapes;

/// The entries of plan.json that are for one stage of a profile.
std::vector<search::Pin> entries_for(const std::vector<search::Pin>& entries,
                                     const bundle::ProfileInfo& profile,
                                     const bundle::StageInfo& stage) {
  std::vector<search::Pin> own;
  for (const search::Pin& entry : entries)
    if (entry.profile.value_or(profile.binding) == profile.binding &&
        entry.stage.value_or(stage.stage) == stage.stage)
      own.push_back(entry);
  return own;
}

sharding::DeviceMesh mesh_of(const bundle::StageInfo& stage) {
  std::vector<int> sizes;
  for (const bundle::MeshAxis& axis : stage.mesh) sizes.push_back(axis.size);
  return sharding::DeviceMesh(sizes);
}

void set_states(const bundle::MetaInfo& info, Graph& graph) {
  const auto place_of = [&](const std::vector<graph::ValueId>& ports, const std::string& name) {
    const auto is_it = [&](graph::ValueId id) { return graph.value(id).name == name; };
    return static_cast<std::size_t>(std::ranges::find_if(ports, is_it) - ports.begin());
  };
  for (const bundle::StateInfo& state : info.states)
    graph.states.push_back(
        {place_of(graph.outputs, state.output), place_of(graph.inputs, state.input)});
}

/// Throws Error where the structure is another model's than the ranks' graphs are.
void check_ports(const bundle::MetaInfo& info, const Graph& graph, const fs::path& dir) {
  const auto is_it = [&](graph::ValueId id, const bundle::PortInfo& port) {
    const graph::Value& value = graph.value(id);
    return value.name == port.name && value.type == port.type &&
           value.shape.size() == port.shape.size();
  };
  const bundle::ProfileInfo& profile = info.profiles.front();
  if (!std::ranges::equal(graph.inputs, profile.inputs, is_it) ||
      !std::ranges::equal(graph.outputs, profile.outputs, is_it))
    fail("{} has other inputs or outputs than meta-info.json; partition the model again",
         (dir / bundle::structure_file).string());
}

}  // namespace

PlannedStructure read_planned_structure(bundle::MetaInfo info, const fs::path& dir) {
  bundle::check_common_files(info.files, dir);
  bundle::check_common_files(info.structure, dir);
  cost::DeviceModel device = cost::load_device_file(dir / bundle::device_file);
  const std::vector<search::Pin> entries = search::load_pins(dir / bundle::plan_file);
  std::vector<std::vector<search::OtherStage>> stages;
  for (const bundle::ProfileInfo& profile : info.profiles) {
    std::vector<search::OtherStage>& of_profile = stages.emplace_back();
    for (const bundle::StageInfo& stage : info.stages)
      of_profile.push_back({cost::CostModel(device, mesh_of(stage)), stage.ranks.front(),
                            entries_for(entries, profile, stage)});
  }
  return {std::move(info), std::move(device), std::move(stages)};
}

Graph import_model(const PlannedStructure& structure, const fs::path& dir,
                   const InputShapes& inputs, const std::string& limits) {
  Graph graph = import_structure(dir, inputs, limits);
  check_ports(structure.info, graph, dir);
  set_states(structure.info, graph);
  return graph;
}

std::vector<search::OtherStage> fitted_stages(const PlannedStructure& structure,
                                              std::size_t profile, const Graph& graph) {
  std::vector<search::OtherStage> stages = structure.stages[profile];
  std::vector<cost::CostModel> costs;
  for (const search::OtherStage& stage : stages) costs.push_back(stage.cost);
  fit_to_model(costs, graph);
  for (std::size_t s = 0; s < stages.size(); ++s) stages[s].cost = std::move(costs[s]);
  return stages;
}

}  // namespace autopar::planner
