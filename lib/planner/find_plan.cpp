#include "planner/find_plan.h"

#include <spdlog/spdlog.h>

#include "base/error.h"
#include "base/interruption.h"
#include "planner/device_fit.h"
#include "search/search_meshes.h"

namespace autopar::planner {

namespace {

void tell_of_interruption() {
  if (was_interrupted()) spdlog::warn("interrupted: this is the best plan found so far");
}

/// The memory limit is held against the predicted needs of a plan's shards. Rank 0 keeps a tail's
/// weights where the host that computes it shares memory with the shard.
search::SearchOptions with_memory_needs(const SearchSetup& setup, const LoadedModel& model) {
  search::SearchOptions options = setup.search;
  const cost::DeviceModel& device = setup.meshes.front().device();
  options.run_bytes = run_bytes_on(device);
  const bool has_tail = model.tail && device.runs_on == "cpu";
  options.rank0_bytes = has_tail ? model.tail->summary.weight_bytes : 0;
  return options;
}

search::FoundPipeline find_pipeline(const LoadedModel& model, const graph::Graph& microbatch,
                                    const PlanOptions& plan, const SearchSetup& setup) {
  if (!model.graph.states.empty())
    fail("--loop: states stay on one stage's devices; leave --stages and --microbatches out");
  const cost::DeviceModel& device = setup.meshes.front().device();
  search::PipelineOptions pipeline;
  pipeline.stages = setup.stages.value_or(0);
  pipeline.microbatches = plan.microbatches;
  pipeline.objective = setup.objective;
  pipeline.mesh = setup.stage_mesh;
  const auto shown = show(plan.progress, "searching for the best stages");
  search::FoundPipeline found = search::search_pipeline(
      model.graph, microbatch, device, setup.meshes, with_memory_needs(setup, model), pipeline);
  tell_of_interruption();
  return found;
}

search::FoundPipeline in_one_stage(const graph::Graph& graph, search::SolvedPlan solved) {
  return {plan::one_stage_plan(graph, std::move(solved.plan)), std::move(solved.report)};
}

}  // namespace

search::SolvedPlan find_solved_plan(const LoadedModel& model, const SearchSetup& setup,
                                    const Progress& progress) {
  const auto shown = show(progress, "searching for the best plan");
  search::SolvedPlan found =
      search::search_meshes(model.graph, setup.meshes, with_memory_needs(setup, model));
  tell_of_interruption();
  return found;
}

Plan plan(const Model& model, const PlanOptions& options) {
  const LoadedModel& loaded = model.contents();
  SearchSetup setup = make_search_setup(options);
  discover_missing_rules(options, loaded.graph);
  program::SplitBatch split = split_model(loaded, options);
  fit_to_model(setup.meshes, loaded.graph);
  const bool is_simple = setup.stages == 1 && options.microbatches == 1;
  search::FoundPipeline found =
      is_simple ? in_one_stage(loaded.graph, find_solved_plan(loaded, setup, options.progress))
                : find_pipeline(loaded, split.microbatch, options, setup);
  return Plan(std::make_shared<const FoundPlan>(FoundPlan{
      model.shared(), std::move(split.ports), std::move(found), setup.meshes.front().device()}));
}

PlanSummary Plan::summary() const {
  const auto& [plan, report] = contents().pipeline;
  return {.ranks = plan.num_devices(),
          .stages = static_cast<int>(plan.stages.size()),
          .cost_seconds = plan.predicted.cost_seconds,
          .lower_bound_seconds = report.lower_bound_seconds,
          .proven_optimal = report.proven_optimal,
          .weight_bytes = plan.predicted.weight_bytes,
          .peak_bytes = plan.predicted.peak_bytes,
          .one_device_seconds = report.one_device_seconds,
          .one_device_bytes = report.one_device_bytes};
}

std::vector<std::string> device_names() { return cost::device_preset_names(); }

}  // namespace autopar::planner
