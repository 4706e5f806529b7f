#include "search/stages/search_pipeline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/interruption.h"
#include "search/operator_bound.h"
#include "search/plan_builder.h"
#include "search/search_meshes.h"
#include "search/stages/stage_search.h"

namespace autopar::search {

namespace {

/// With more axes, the bound of a mesh takes as long as its search.
constexpr int most_axes_of_bound = 3;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The outcome of the search among one kind of plans: the whole model's, or stages'.
struct Outcome {
  std::optional<FoundPipeline> found = std::nullopt;
  double lower_bound_seconds = infinity;  ///< where there is no plan; infinite if none fits

  double bound() const { return found ? found->report.lower_bound_seconds : lower_bound_seconds; }
  bool is_proven() const {
    return found ? found->report.proven_optimal : lower_bound_seconds == infinity;
  }
};

FoundPipeline one_stage(const PipelineTask& task, const graph::Graph& graph, int microbatches,
                        const SearchOptions& options) {
  SolvedPlan solved = search_meshes(graph, task.meshes, options);
  FoundPipeline found{plan::one_stage_plan(graph, std::move(solved.plan)),
                      std::move(solved.report)};
  found.plan.microbatches = microbatches;
  found.plan.objective = task.pipeline.objective;
  found.plan.predicted.cost_seconds = plan::pipeline_seconds(found.plan);
  found.plan.predicted.communication_seconds *= microbatches;
  found.report.lower_bound_seconds *= microbatches;
  for (MeshTrial& trial : found.report.meshes) {
    if (trial.cost_seconds) *trial.cost_seconds *= microbatches;
    trial.lower_bound_seconds *= microbatches;
  }
  found.report.search_seconds = task.stopwatch.seconds();
  return found;
}

FoundPipeline one_stage_for_microbatches(const PipelineTask& task) {
  SearchOptions options = task.options;
  options.microbatches = task.pipeline.microbatches;
  FoundPipeline found = one_stage(task, task.microbatch, task.pipeline.microbatches, options);
  found.report.one_device_seconds = least_seconds_on(1, task.whole, task.device);
  found.report.one_device_bytes = bytes_on_one_device(task.whole);
  return found;
}

/// Whether it is proven that every plan of the whole model takes longer, whatever memory it needs.
bool is_below_the_whole(const PipelineTask& task, double seconds) {
  if (least_seconds_on(task.devices(), task.whole, task.device) > seconds) return true;
  if (task.options.method != SearchMethod::ilp || !task.options.pins.empty()) return false;
  const auto has_many_axes = [](const cost::CostModel& each) {
    return each.mesh().num_axes() > most_axes_of_bound;
  };
  if (std::ranges::any_of(task.meshes, has_many_axes)) return false;
  const auto is_over = [&] { return task.seconds_left() <= 0 || was_interrupted(); };
  SearchOptions options = task.options;
  options.memory = MemoryPolicy::unlimited();
  return std::ranges::all_of(task.meshes, [&](const cost::CostModel& mesh) {
    if (is_over()) return false;
    assignment::AssignmentProblem problem = build_plan_problem(task.whole, mesh, options).problem;
    problem.usage_limits.clear();
    if (is_over()) return false;
    const double share = task.seconds_left() / static_cast<double>(task.meshes.size() + 1);
    const assignment::Solution solution =
        solve(problem, {.time_limit_seconds = std::max(0.0, share), .patience_seconds = 1});
    return static_cast<double>(solution.lower_bound) * seconds_per_cost > seconds;
  });
}

/// The cheaper one, of equals the whole model's. Its bound is for both.
FoundPipeline better_of(const PipelineTask& task, Outcome whole, Outcome staged) {
  const double bound = std::min(whole.bound(), staged.bound());
  const bool are_proven = whole.is_proven() && staged.is_proven();
  const bool keeps_whole =
      whole.found && (!staged.found || whole.found->plan.predicted.cost_seconds <=
                                           staged.found->plan.predicted.cost_seconds);
  FoundPipeline& best = keeps_whole ? *whole.found : *staged.found;
  if (whole.found && staged.found) {
    const SearchReport& in_one = whole.found->report;
    const SearchReport& in_stages = staged.found->report;
    const bool is_searched = in_one.bound_is_searched && in_stages.bound_is_searched;
    const double glpk_seconds = in_one.glpk_seconds + in_stages.glpk_seconds;
    best.report.bound_is_searched = is_searched;
    best.report.glpk_seconds = glpk_seconds;
    best.report.epsilon = in_stages.epsilon;
    best.report.layers = in_stages.layers;
    best.report.stages_searched = in_stages.stages_searched;
  }
  const double cost_seconds = best.plan.predicted.cost_seconds;
  best.report.proven_optimal = bound >= cost_seconds || are_proven;
  best.report.lower_bound_seconds =
      best.report.proven_optimal ? cost_seconds : std::min(bound, cost_seconds);
  best.report.search_seconds = task.stopwatch.seconds();
  return std::move(best);
}

/// Stages first: often they are better than any plan of the whole model can be.
FoundPipeline with_open_count(const PipelineTask& task) {
  Outcome staged;
  try {
    staged.found = search_stages(task);
  } catch (const NoPipelineFits& error) {  // the whole model may, or says best what it needs
    staged.lower_bound_seconds = error.lower_bound_seconds;
  }
  if (staged.found && is_below_the_whole(task, staged.found->plan.predicted.cost_seconds))
    return std::move(*staged.found);
  SearchOptions options = task.options;
  options.warns = false;
  options.time_limit_seconds = std::max(0.0, task.seconds_left());
  Outcome whole;
  try {
    whole.found = one_stage(task, task.whole, 1, options);
  } catch (const NothingFits& error) {
    if (!staged.found)
      throw NothingFits(error.what(), error.least_bytes, error.is_proven && staged.is_proven());
    if (!error.is_proven)
      whole.lower_bound_seconds = least_seconds_on(task.devices(), task.whole, task.device);
  }
  return better_of(task, std::move(whole), std::move(staged));
}

void require_enough_devices(const PipelineTask& task) {
  const PipelineOptions& pipeline = task.pipeline;
  if (pipeline.stages > task.devices()) {
    fail("--stages {}: there are {} devices, and a stage needs one: use at most {} stages",
         pipeline.stages, task.devices(), task.devices());
  }
  const auto nodes = static_cast<int>(task.microbatch.nodes.size());
  const int most = pipeline.layers > 0 ? std::min(pipeline.layers, nodes) : nodes;
  if (pipeline.stages > most) {
    fail("--stages {}: the model has {} {}, and a stage needs one: use at most {} stages",
         pipeline.stages, most, most == nodes ? "operators" : "layers", most);
  }
}

FoundPipeline search(const PipelineTask& task) {
  const PipelineOptions& pipeline = task.pipeline;
  if (pipeline.stages == 1 || task.microbatch.nodes.empty())
    return one_stage_for_microbatches(task);
  require_enough_devices(task);
  Pins(task.options.pins, task.microbatch);  // throws for one that names nothing
  if (pipeline.stages == 0 && task.devices() == 1 && pipeline.microbatches == 1)
    return one_stage(task, task.whole, 1, task.options);
  if (task.options.warns) warn_of_missing_rules(task.microbatch);
  return pipeline.stages == 0 ? with_open_count(task) : search_stages(task);
}

}  // namespace

FoundPipeline search_pipeline(const graph::Graph& whole, const graph::Graph& microbatch,
                              const cost::DeviceModel& device,
                              std::span<const cost::CostModel> meshes, const SearchOptions& options,
                              const PipelineOptions& pipeline) {
  require(!meshes.empty(), "a search has a mesh");
  require(pipeline.stages >= 0 && pipeline.microbatches > 0 && pipeline.epsilon >= 0,
          "a pipeline has stages and microbatches");
  const InterruptionGuard guard{SIGINT};  // Ctrl-C: the best so far will do
  return search({whole, microbatch, device, meshes, options, pipeline});
}

}  // namespace autopar::search
