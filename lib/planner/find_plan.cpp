#include "planner/find_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/interruption.h"
#include "base/problems.h"
#include "graph/operators/library_operator.h"
#include "planner/device_fit.h"
#include "planner/shard_flavour.h"
#include "planner/shared_search.h"
#include "planner/strategy_file.h"
#include "program/split_batch.h"
#include "runtime/executable.h"
#include "search/pins.h"
#include "search/search_meshes.h"
#include "sharding/discovery/discovered_rules.h"

namespace autopar::planner {

namespace {

/// The rows of a microbatch: the batch may be no multiple, but none may be left without rows.
std::int64_t microbatch_rows(std::int64_t batch, int microbatches) {
  const std::int64_t rows = (batch + microbatches - 1) / microbatches;
  const std::int64_t filled = rows == 0 ? 0 : (batch + rows - 1) / rows;
  if (filled != microbatches) {
    fail("--microbatches {}: a batch of {} makes {} of {}; give {}", microbatches, batch, filled,
         rows, std::max<std::int64_t>(filled, 1));
  }
  return rows;
}

/// Where the batch is refused, pins that name nothing are told, too.
program::BatchInputs find_batch_or_tell_pins(const graph::Graph& graph, const PlanOptions& plan) {
  program::BatchInputs batch;
  Problems problems;
  const bool is_found = problems.collect([&] { batch = program::find_batch(graph, plan.batch); });
  if (!is_found && !plan.strategy.empty()) search::check_names(pins_by_name(plan), graph, problems);
  problems.throw_if_any();
  return batch;
}

/// The model for a batch of so many rows. Throws Error where it does not allow that.
graph::Graph load_with_batch(const LoadedModel& model, const program::BatchInputs& batch,
                             std::int64_t rows) {
  std::map<graph::ValueId, graph::Shape> shapes;
  const graph::Graph& graph = model.profiles.front().graph;
  for (const graph::ValueId input : graph.inputs) shapes[input] = graph.value(input).shape;
  for (const auto& [input, dim] : batch.dims) shapes[input][static_cast<std::size_t>(dim)] = rows;
  ModelOptions other = model.options;
  other.shapes.clear();  // each input gets what they came to
  for (const auto& [input, shape] : shapes)
    other.shapes.push_back(graph.value(input).name + "=" + graph::to_string(shape));
  return load_graph(other).graph;
}

/// The model for the batch that is filled up to `rows`, which must compute nothing with its size.
graph::Graph load_filled_up(const LoadedModel& model, const PlanOptions& plan,
                            const program::BatchInputs& batch, std::int64_t rows) {
  graph::Graph filled;
  try {
    filled = load_with_batch(model, batch, rows);
  } catch (const Error&) {
    fail("--microbatches {}: the model is for a batch of {} alone; give a divisor of it",
         plan.microbatches, batch.rows);
  }
  discover_missing_rules(plan, filled);
  if (!program::differ_in_batch_alone(model.profiles.front().graph, filled, batch.rows, rows)) {
    fail(
        "--microbatches {}: the model computes with the size of its batch, {}; give a divisor of "
        "it",
        plan.microbatches, batch.rows);
  }
  return filled;
}

/// The model cut into the plan's microbatches. Where the batch is no multiple of them, it is cut as
/// the next greater one would be: the model is read again with that. Throws Error where it cannot
/// be cut so.
program::SplitBatch split_model(const LoadedModel& model, const PlanOptions& plan) {
  const graph::Graph& graph = model.profiles.front().graph;
  if (plan.microbatches == 1) return {.microbatch = graph, .ports = {}};
  const program::BatchInputs batch = find_batch_or_tell_pins(graph, plan);
  const auto& [input, dim] = batch.dims.front();
  if (dim > 0)
    spdlog::info("microbatches cut dimension {} of input '{}'", dim, graph.value(input).name);
  const std::int64_t filled = microbatch_rows(batch.rows, plan.microbatches) * plan.microbatches;
  // Both graphs are one model's, value by value, so that the batch is in the same place.
  program::SplitBatch split = filled == batch.rows
                                  ? program::split_batch(graph, plan.microbatches, batch)
                                  : program::split_batch(load_filled_up(model, plan, batch, filled),
                                                         plan.microbatches, batch);
  discover_missing_rules(plan, split.microbatch);
  return split;
}

void tell_of_interruption(const SearchSetup& setup) {
  if (setup.search.warns && was_interrupted())
    spdlog::warn("interrupted: this is the best plan found so far");
}

/// What the search is asked for, with the pins for this model. The memory limit is held against the
/// predicted needs of a plan's shards.
search::SearchOptions options_for(const SearchSetup& setup, const LoadedModel& model) {
  search::SearchOptions options = setup.search;
  options.pins = pins_for(setup, model);
  const cost::DeviceModel& device = setup.meshes.front().device();
  options.run_bytes = run_bytes_on(device);
  options.rank0_bytes = rank0_bytes(model, device);
  return options;
}

search::FoundPipeline find_pipeline(const LoadedModel& model, const graph::Graph& microbatch,
                                    const SearchSetup& setup, const Progress& progress) {
  const graph::Graph& graph = model.profiles.front().graph;
  if (!graph.states.empty() && setup.pipeline.microbatches > 1)
    fail("--loop: states are a whole batch's; leave --microbatches out");
  const Shown shown(progress, "searching for the best stages");
  search::FoundPipeline found = search::search_pipeline(graph, microbatch, setup.meshes,
                                                        options_for(setup, model), setup.pipeline);
  tell_of_interruption(setup);
  return found;
}

/// What Plan holds of plans for all profiles.
FoundPlan found_plan(const Model& model, const FittedProfiles& profiles,
                     std::vector<plan::PipelinePlan> plans, const plan::Prediction& predicted,
                     search::SearchReport report) {
  FoundPlan result{.model = model.shared(),
                   .ports = {},
                   .profiles = {},
                   .predicted = predicted,
                   .report = std::move(report)};
  for (std::size_t p = 0; p < plans.size(); ++p)
    result.profiles.push_back({std::move(plans[p]), profiles.device(p)});
  return result;
}

/// All profiles in one stage.
FoundPlan find_in_one_stage(const Model& model, const SearchSetup& setup,
                            const Progress& progress) {
  const LoadedModel& loaded = model.contents();
  const FittedProfiles profiles(loaded, setup.meshes);
  search::JointPlan found = find_joint_plan(loaded, setup, profiles, progress);
  std::vector<plan::PipelinePlan> plans;
  for (std::size_t p = 0; p < found.plans.size(); ++p)
    plans.push_back(plan::one_stage_plan(loaded.profiles[p].graph, std::move(found.plans[p])));
  return found_plan(model, profiles, std::move(plans), found.predicted, std::move(found.report));
}

/// The same in several stages.
FoundPlan find_profiles_in_stages(const Model& model, const SearchSetup& setup,
                                  const Progress& progress) {
  const LoadedModel& loaded = model.contents();
  const FittedProfiles profiles(loaded, setup.meshes);
  const Shown shown(progress, "searching for the best stages");
  search::JointPipeline found =
      search::search_joint_pipeline(profiles.meshes(), options_for(setup, loaded), setup.pipeline);
  tell_of_interruption(setup);
  return found_plan(model, profiles, std::move(found.plans), found.predicted,
                    std::move(found.report));
}

/// States that nobody has asked for are left out where microbatches could not keep them.
Model without_found_states(const Model& model, const SearchSetup& setup) {
  const LoadedModel& loaded = model.contents();
  if (setup.pipeline.microbatches == 1 || loaded.profiles.front().graph.states.empty() ||
      !loaded.options.loops.empty())
    return model;
  auto without_states = std::make_shared<LoadedModel>(loaded);
  for (LoadedProfile& profile : without_states->profiles) profile.graph.states.clear();
  return Model(std::move(without_states));
}

/// What Plan holds of one profile in stages or microbatches.
FoundPlan find_in_stages(const Model& model, const PlanOptions& options, SearchSetup& setup) {
  const LoadedModel& loaded = model.contents();
  program::SplitBatch split = split_model(loaded, options);
  fit_to_model(setup.meshes, loaded.profiles.front().graph);
  search::FoundPipeline found = find_pipeline(loaded, split.microbatch, setup, options.progress);
  FoundPlan result{.model = model.shared(),
                   .ports = std::move(split.ports),
                   .profiles = {},
                   .predicted = found.plan.predicted,
                   .report = std::move(found.report)};
  result.profiles.push_back({std::move(found.plan), setup.meshes.front().device()});
  return result;
}

}  // namespace

std::int64_t rank0_bytes(const LoadedModel& model, const cost::DeviceModel& device) {
  const auto& tail = model.profiles.front().tail;
  return tail && device.runs_on == "cpu" ? tail->summary.weight_bytes : 0;
}

void discover_missing_rules(const PlanOptions& plan, const graph::Graph& graph) {
  const auto is_wanted = [&plan](const graph::Node& node) {
    const auto* of_library = graph::find_library_operator(node.domain, node.op_type);
    return of_library ? of_library->may_be_split() : plan.discover;
  };
  for (const std::string& reason :
       sharding::discover_rules(graph, runtime::evaluate_constants, is_wanted))
    spdlog::warn("no split is found of {}", reason);
}

FittedProfiles::FittedProfiles(const LoadedModel& model, const std::vector<cost::CostModel>& meshes)
    : meshes_(meshes.size()) {
  for (const LoadedProfile& each : model.profiles) {
    stages_.push_back(graph::whole_stage(each.graph));
    fit_to_model(costs_.emplace_back(meshes), each.graph);
  }
  for (std::size_t p = 0; p < stages_.size(); ++p)
    for (std::size_t m = 0; m < meshes.size(); ++m)
      meshes_[m].push_back(
          {&stages_[p], &costs_[p][m], model.profiles[p].weight, model.profiles[p].binding});
}

search::JointPlan find_joint_plan(const LoadedModel& model, const SearchSetup& setup,
                                  const FittedProfiles& profiles, const Progress& progress) {
  const Shown shown(progress, "searching for the best plan");
  search::JointPlan found = search::search_meshes(profiles.meshes(), options_for(setup, model));
  tell_of_interruption(setup);
  return found;
}

Plan plan(const Model& model, const PlanOptions& options) { return plan(model, options, {}); }

Plan plan(const Model& model, const PlanOptions& options, const SearchShare& share) {
  const LoadedModel& loaded = model.contents();
  SearchSetup setup = make_search_setup(options);
  setup.search.threads = share.threads;
  setup.search.warns = share.warns;
  check_one_microbatch(options, loaded.profiles.size());
  check_model(shard_flavour(options.shards), loaded);
  for (const LoadedProfile& profile : loaded.profiles)
    discover_missing_rules(options, profile.graph);
  const bool is_simple = setup.pipeline.stages == 1 && setup.pipeline.microbatches == 1;
  FoundPlan found = is_simple ? find_in_one_stage(model, setup, options.progress)
                    : loaded.profiles.size() > 1
                        ? find_profiles_in_stages(model, setup, options.progress)
                        : find_in_stages(without_found_states(model, setup), options, setup);
  found.memory_limit_bytes = search::limit_of(setup.search.memory, setup.meshes.front().device());
  found.interrupted = was_interrupted();
  found.shards = options.shards;
  return Plan(std::make_shared<const FoundPlan>(std::move(found)));
}

PlanSummary Plan::summary() const {
  const FoundPlan& found = contents();
  const plan::PipelinePlan& plan = found.profiles.front().plan;
  const plan::Prediction& predicted = found.predicted;
  const search::SearchReport& report = found.report;
  return {.ranks = plan.num_devices(),
          .stages = static_cast<int>(plan.stages.size()),
          .cost_seconds = predicted.cost_seconds,
          .lower_bound_seconds = report.lower_bound_seconds,
          .proven_optimal = report.proven_optimal,
          .weight_bytes = predicted.weight_bytes,
          .peak_bytes = predicted.peak_bytes,
          .one_device_seconds = report.one_device_seconds,
          .one_device_bytes = report.one_device_bytes,
          .interrupted = found.interrupted};
}

std::vector<std::string> device_names() { return cost::device_preset_names(); }

}  // namespace autopar::planner
