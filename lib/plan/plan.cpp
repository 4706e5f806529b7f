#include "plan/plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace autopar::plan {

const sharding::TensorShardSpec& Plan::spec_of(const graph::Graph& graph,
                                               graph::ValueId value) const {
  if (const auto found = stored.find(value); found != stored.end()) return found->second;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const auto& outputs = graph.nodes[id].outputs;
    const auto found = std::ranges::find(outputs, value);
    if (found != outputs.end()) {
      return operators[id].outputs[found - outputs.begin()];
    }
  }
  throw InternalError("internal error: a value is stored or has a producer");
}

std::string_view name_of(Objective objective) {
  return objective == Objective::latency ? "latency" : "throughput";
}

int PipelinePlan::num_devices() const {
  return stages.back().first_rank + stages.back().num_devices();
}

PipelinePlan one_stage_plan(const graph::Graph& graph, Plan plan) {
  PipelinePlan pipeline;
  pipeline.predicted = plan.predicted;
  pipeline.stages.push_back({.stage = graph::whole_stage(graph), .plan = std::move(plan)});
  return pipeline;
}

double pipeline_seconds(const PipelinePlan& plan) {
  double sum = 0;
  double slowest = 0;
  for (const StagePlan& stage : plan.stages) {
    for (const double seconds : {stage.plan.predicted.cost_seconds, stage.transfer_seconds}) {
      sum += seconds;
      slowest = std::max(slowest, seconds);
    }
  }
  return plan.objective == Objective::latency ? sum + (plan.microbatches - 1) * slowest
                                              : plan.microbatches * slowest;
}

Prediction pipeline_prediction(const PipelinePlan& plan) {
  Prediction all{.cost_seconds = pipeline_seconds(plan)};
  for (const StagePlan& stage : plan.stages) {
    const Prediction& own = stage.plan.predicted;
    all.communication_seconds += own.communication_seconds + stage.transfer_seconds;
    all.weight_bytes = std::max(all.weight_bytes, own.weight_bytes);
    all.peak_bytes = std::max(all.peak_bytes, own.peak_bytes);
  }
  all.communication_seconds *= plan.microbatches;
  return all;
}

}  // namespace autopar::plan
