#include "planner/rank_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/find_plan.h"
#include "planner/summary.h"

namespace autopar::planner {

namespace {

/// The first rank of a mesh has the largest shares.
std::int64_t state_bytes(const graph::Graph& graph, const plan::Plan& plan) {
  std::int64_t bytes = 0;
  for (const graph::State& state : graph.states) {
    const graph::ValueId input = graph.inputs[state.input];
    const graph::Value& value = graph.value(input);
    const graph::Shape share =
        sharding::local_shape(plan.spec_of(graph, input), value.shape, plan.mesh, 0);
    bytes += graph::bytes_of(value.type, graph::num_elements(share));
  }
  return bytes;
}

const plan::StagePlan& fullest_stage(const FoundPlan& found) {
  const plan::StagePlan* fullest = nullptr;
  for (const FoundPlan::Profile& profile : found.profiles)
    for (const plan::StagePlan& stage : profile.plan.stages)
      if (!fullest || stage.plan.predicted.peak_bytes > fullest->plan.predicted.peak_bytes)
        fullest = &stage;
  return *fullest;
}

}  // namespace

RankMemory rank_memory(const FoundPlan& found) {
  const plan::StagePlan& stage = fullest_stage(found);
  const plan::Prediction& predicted = stage.plan.predicted;
  const std::int64_t tail =
      stage.first_rank == 0 ? rank0_bytes(*found.model, found.profiles.front().device) : 0;
  RankMemory memory{.weights = predicted.weight_bytes + tail};
  const std::int64_t beside = std::max<std::int64_t>(predicted.peak_bytes - memory.weights, 0);
  memory.states = std::min(state_bytes(stage.stage.graph, stage.plan), beside);
  memory.activations = beside - memory.states;
  return memory;
}

std::string rank_memory_text(const RankMemory& memory) {
  return fmt::format("{} at the peak: {} of weights, {}{} of activations", in_bytes(memory.peak()),
                     in_bytes(memory.weights),
                     memory.states > 0 ? in_bytes(memory.states) + " of states, " : "",
                     in_bytes(memory.activations));
}

}  // namespace autopar::planner
