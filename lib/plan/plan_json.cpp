#include "plan/plan_json.h"

#include <map>
#include <set>

namespace autopar::plan {

namespace {

using sharding::TensorShardSpec;

json specs_json(const std::vector<TensorShardSpec>& specs) {
  json list = json::array();
  for (const TensorShardSpec& spec : specs) list.push_back(to_string(spec));
  return list;
}

json stored_json(const std::string& name, const TensorShardSpec& spec) {
  return {{"name", name}, {"outputs", specs_json({spec})}};
}

/// Appends an entry for every operator.
void append_operators(const graph::Graph& graph, const Plan& plan, json& operators) {
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
          {"seconds", stage.plan.predicted.cost_seconds},
          {"transfer_seconds", stage.transfer_seconds},
          {"weight_bytes", stage.plan.predicted.weight_bytes},
          {"peak_bytes", stage.plan.predicted.peak_bytes}};
}

/// Names of constants that lie one way wherever they are.
std::set<std::string> joined_weights(std::span<const NamedPlan> plans) {
  std::map<std::string, std::set<TensorShardSpec>> specs;
  for (const NamedPlan& each : plans)
    for (const auto& [value, spec] : each.plan->stored)
      if (each.graph->is_constant(value)) specs[each.graph->value(value).name].insert(spec);
  std::set<std::string> joined;
  for (const auto& [name, of_name] : specs)
    if (of_name.size() == 1) joined.insert(name);
  return joined;
}

}  // namespace

json plan_json(const PipelinePlan& plan, std::span<const CollectiveUse> collectives) {
  json operators = json::array();
  json stages = json::array();
  for (const StagePlan& stage : plan.stages) {
    for (const auto& [value, spec] : stage.plan.stored)
      operators.push_back(stored_json(stage.stage.graph.value(value).name, spec));
    append_operators(stage.stage.graph, stage.plan, operators);
    stages.push_back(stage_json(stage));
  }
  json text{{"version", 1},
            {"device", plan.stages.front().plan.device},
            {"summary", JsonWriter::write(plan.predicted)},
            {"collectives", JsonWriter::write(collectives)},
            {"operators", std::move(operators)}};
  if (plan.is_pipeline()) {
    text["stages"] = std::move(stages);
    text["microbatches"] = plan.microbatches;
    text["objective"] = name_of(plan.objective);
  } else {
    text["mesh"] = plan.stages.front().plan.mesh.axis_sizes();
  }
  return text;
}

json plan_json(std::span<const NamedPlan> plans, const Prediction& of_all) {
  const std::set<std::string> joined = joined_weights(plans);
  json operators = json::array();
  json profiles = json::array();
  std::set<std::string> told;
  for (const auto& [profile, weight, graph, plan, collectives] : plans) {
    json own = json::array();
    for (const auto& [value, spec] : plan->stored) {
      const std::string& name = graph->value(value).name;
      if (!joined.contains(name))
        own.push_back(stored_json(name, spec));
      else if (told.insert(name).second)
        operators.push_back(stored_json(name, spec));
    }
    append_operators(*graph, *plan, own);
    for (json& entry : own) {
      entry["profile"] = profile;
      operators.push_back(std::move(entry));
    }
    profiles.push_back({{"profile", profile},
                        {"weight", weight},
                        {"summary", JsonWriter::write(plan->predicted)},
                        {"collectives", JsonWriter::write(collectives)}});
  }
  return {{"version", 1},
          {"device", plans.front().plan->device},
          {"mesh", plans.front().plan->mesh.axis_sizes()},
          {"summary", JsonWriter::write(of_all)},
          {"profiles", std::move(profiles)},
          {"operators", std::move(operators)}};
}

}  // namespace autopar::plan
