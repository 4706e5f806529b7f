#include "search/plan.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "graph/error.h"

namespace autopar::search {

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

}  // namespace

const TensorShardSpec& Plan::spec_of(const graph::Graph& graph, graph::ValueId value) const {
  if (const auto found = stored.find(value); found != stored.end()) return found->second;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const auto& outputs = graph.nodes[id].outputs;
    const auto found = std::ranges::find(outputs, value);
    if (found != outputs.end()) {
      return operators[id].outputs[static_cast<std::size_t>(found - outputs.begin())];
    }
  }
  throw InternalError("internal error: a value is stored or has a producer");
}

std::string plan_json(const graph::Graph& graph, const Plan& plan,
                      std::span<const CollectiveUse> collectives) {
  json operators = json::array();
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
  return json{{"version", 1},
              {"mesh", plan.mesh.axis_sizes()},
              {"device", plan.device},
              {"summary", summary_json(plan.summary)},
              {"collectives", collectives_json(collectives)},
              {"operators", operators}}
      .dump(2);
}

}  // namespace autopar::search
