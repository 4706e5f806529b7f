#include "plan/plan_json.h"

namespace autopar::plan {

namespace {

using sharding::TensorShardSpec;

json specs_json(const std::vector<TensorShardSpec>& specs) {
  json list = json::array();
  for (const TensorShardSpec& spec : specs) list.push_back(to_string(spec));
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
          {"seconds", stage.plan.predicted.cost_seconds},
          {"transfer_seconds", stage.transfer_seconds},
          {"weight_bytes", stage.plan.predicted.weight_bytes},
          {"peak_bytes", stage.plan.predicted.peak_bytes}};
}

}  // namespace

json plan_json(const PipelinePlan& plan, std::span<const CollectiveUse> collectives) {
  json operators = json::array();
  json stages = json::array();
  for (const StagePlan& stage : plan.stages) {
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

}  // namespace autopar::plan
