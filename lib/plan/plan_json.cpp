#include "plan/plan_json.h"

#include <map>
#include <set>
#include <utility>

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

/// "mesh", or "stages" of a pipeline.
void tell_devices(const PipelinePlan& plan, json& text) {
  if (!plan.is_pipeline()) {
    text["mesh"] = plan.stages.front().plan.mesh.axis_sizes();
    return;
  }
  for (const StagePlan& stage : plan.stages) text["stages"].push_back(stage_json(stage));
}

/// A constant of a stage, by its name.
using Weight = std::pair<std::size_t, std::string>;

/// Constants that are of one shape and lie one way wherever a stage has them: one that was folded
/// for a profile may have another's name.
std::set<Weight> joined_weights(std::span<const NamedPlan> plans) {
  using Place = std::pair<graph::Shape, TensorShardSpec>;
  std::map<Weight, std::set<Place>> places;
  for (const NamedPlan& each : plans)
    for (std::size_t s = 0; s < each.plan->stages.size(); ++s) {
      const auto& [stage, first_rank, plan, transfer_seconds] = each.plan->stages[s];
      for (const auto& [id, spec] : plan.stored) {
        const graph::Value& value = stage.graph.value(id);
        if (value.constant) places[{s, value.name}].emplace(value.shape, spec);
      }
    }
  std::set<Weight> joined;
  for (const auto& [name, of_name] : places)
    if (of_name.size() == 1) joined.insert(name);
  return joined;
}

/// The entries of a stage: stored tensors, then operators.
json entries_of(const PipelinePlan& plan, std::size_t s) {
  const StagePlan& stage = plan.stages[s];
  json entries = json::array();
  for (const auto& [value, spec] : stage.plan.stored)
    entries.push_back(stored_json(stage.stage.graph.value(value).name, spec));
  append_operators(stage.stage.graph, stage.plan, entries);
  if (!plan.is_pipeline()) return entries;
  for (json& entry : entries) entry["stage"] = s;
  return entries;
}

}  // namespace

json plan_json(const PipelinePlan& plan, std::span<const CollectiveUse> collectives) {
  json operators = json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (json& entry : entries_of(plan, s)) operators.push_back(std::move(entry));
  json text{{"version", 1},
            {"device", plan.stages.front().plan.device},
            {"summary", JsonWriter::write(plan.predicted)},
            {"collectives", JsonWriter::write(collectives)},
            {"operators", std::move(operators)}};
  tell_devices(plan, text);
  if (plan.is_pipeline()) {
    text["microbatches"] = plan.microbatches;
    text["objective"] = name_of(plan.objective);
  }
  return text;
}

json plan_json(std::span<const NamedPlan> plans, const Prediction& of_all) {
  const std::set<Weight> joined = joined_weights(plans);
  json operators = json::array();
  json profiles = json::array();
  std::set<Weight> told;
  for (const auto& [profile, weight, plan, collectives] : plans) {
    json own = json::array();
    for (std::size_t s = 0; s < plan->stages.size(); ++s) {
      for (json& entry : entries_of(*plan, s)) {
        const Weight name{s, entry["name"].get<std::string>()};
        const bool is_joined = !entry.contains("inputs") && joined.contains(name);
        if (!is_joined) entry["profile"] = profile;
        if (!is_joined || told.insert(name).second)
          (is_joined ? operators : own).push_back(std::move(entry));
      }
    }
    for (json& entry : own) operators.push_back(std::move(entry));
    json& of_profile = profiles.emplace_back(json{{"profile", profile},
                                                  {"weight", weight},
                                                  {"summary", JsonWriter::write(plan->predicted)},
                                                  {"collectives", JsonWriter::write(collectives)}});
    if (plan->is_pipeline()) tell_devices(*plan, of_profile);
  }
  const PipelinePlan& first = *plans.front().plan;
  json text{{"version", 1},
            {"device", first.stages.front().plan.device},
            {"summary", JsonWriter::write(of_all)},
            {"profiles", std::move(profiles)},
            {"operators", std::move(operators)}};
  if (!first.is_pipeline()) tell_devices(first, text);
  return text;
}

}  // namespace autopar::plan
