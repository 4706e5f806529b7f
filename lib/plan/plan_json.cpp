#include "plan/plan_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace autopar::plan {

namespace {

using nlohmann::json;
using sharding::TensorShardSpec;

json specs_json(const std::vector<TensorShardSpec>& specs) {
  json list = json::array();
  for (const TensorShardSpec& spec : specs) list.push_back(to_string(spec));
  return list;
}

/// Where several were searched; a bound is null where the mesh has no plan.
json meshes_json(const std::vector<MeshTrial>& trials) {
  json list = json::array();
  for (const MeshTrial& trial : trials) {
    json entry{{"mesh", trial.mesh.axis_sizes()},
               {"cost_seconds", nullptr},
               {"lower_bound_seconds", nullptr}};
    if (trial.cost_seconds) entry["cost_seconds"] = *trial.cost_seconds;
    if (std::isfinite(trial.lower_bound_seconds)) {
      entry["lower_bound_seconds"] = trial.lower_bound_seconds;
    }
    if (!trial.refusal.empty()) entry["refusal"] = trial.refusal;
    list.push_back(std::move(entry));
  }
  return list;
}

json summary_json(const PlanSummary& summary) {
  json text = {{"search", summary.search},
               {"search_seconds", summary.search_seconds},
               {"glpk_seconds", summary.glpk_seconds},
               {"cost_seconds", summary.cost_seconds},
               {"lower_bound_seconds", summary.lower_bound_seconds},
               {"lower_bound_from", summary.bound_is_searched ? "search" : "least operator costs"},
               {"proven_optimal", summary.proven_optimal},
               {"communication_seconds", summary.communication_seconds},
               {"weight_bytes", summary.weight_bytes},
               {"peak_bytes", summary.peak_bytes},
               {"one_device_seconds", summary.one_device_seconds},
               {"one_device_bytes", summary.one_device_bytes}};
  if (!summary.meshes.empty()) text["meshes"] = meshes_json(summary.meshes);
  if (summary.layers > 0) {
    text["layers"] = summary.layers;
    text["stages_searched"] = summary.stages_searched;
    text["epsilon"] = summary.epsilon;
  }
  return text;
}

json collectives_json(std::span<const CollectiveUse> collectives) {
  json list = json::array();
  for (const CollectiveUse& use : collectives) {
    list.push_back({{"kind", use.kind},
                    {"mesh_axes", use.mesh_axes},
                    {"times", use.times},
                    {"bytes", use.bytes},
                    {"seconds", use.seconds}});
  }
  return list;
}

/// Appends an entry for every stored tensor and every operator.
void append_operators(const graph::Graph& graph, const Plan& plan, json& operators) {
  for (const auto& [value, spec] : plan.stored) {
    operators.push_back({{"name", graph.value(value).name}, {"outputs", specs_json({spec})}});
  }
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const sharding::OpShardSpec& strategy = plan.operators[id];
    json reductions = json::array();
    for (const sharding::ReduceFunction function : strategy.reductions) {
      reductions.push_back(name_of(function));
    }
    operators.push_back({{"name", graph.nodes[id].name},
                         {"op_type", qualified_op_type(graph.nodes[id])},
                         {"inputs", specs_json(strategy.inputs)},
                         {"outputs", specs_json(strategy.outputs)},
                         {"reductions", reductions}});
  }
}

json stage_json(const StagePlan& stage) {
  return {{"mesh", stage.plan.mesh.axis_sizes()},
          {"first_rank", stage.first_rank},
          {"operators", stage.stage.graph.nodes.size()},
          {"seconds", stage.plan.summary.cost_seconds},
          {"transfer_seconds", stage.transfer_seconds},
          {"weight_bytes", stage.plan.summary.weight_bytes},
          {"peak_bytes", stage.plan.summary.peak_bytes}};
}

}  // namespace

std::string plan_json(const PipelinePlan& plan, std::span<const CollectiveUse> collectives) {
  json operators = json::array();
  json stages = json::array();
  for (const StagePlan& stage : plan.stages) {
    append_operators(stage.stage.graph, stage.plan, operators);
    stages.push_back(stage_json(stage));
  }
  json text{{"version", 1},
            {"device", plan.stages.front().plan.device},
            {"summary", summary_json(plan.summary)},
            {"collectives", collectives_json(collectives)},
            {"operators", std::move(operators)}};
  if (plan.is_pipeline()) {
    text["stages"] = std::move(stages);
    text["microbatches"] = plan.microbatches;
    text["objective"] = name_of(plan.objective);
  } else {
    text["mesh"] = plan.stages.front().plan.mesh.axis_sizes();
  }
  return text.dump(2);
}

}  // namespace autopar::plan
