#include "search/stages/joint_pipeline.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/interruption.h"
#include "base/stopwatch.h"
#include "search/logical_meshes.h"
#include "search/operator_bound.h"
#include "search/search_meshes.h"
#include "search/stages/similar_pipeline.h"
#include "search/stages/stage_pins.h"

namespace autopar::search {

namespace {

using Profiles = std::vector<Profile>;

/// The part of the time for the cuts.
constexpr double share_of_cuts = 0.5;

const graph::Graph& graph_of(const Profile& profile) { return profile.stage->graph; }

std::size_t heaviest(const Profiles& profiles) {
  const auto found = std::ranges::max_element(profiles, {}, [](const Profile& each) {
    return each.weight * least_seconds_on(1, graph_of(each), each.cost->device());
  });
  return static_cast<std::size_t>(found - profiles.begin());
}

FoundPipeline search_one(std::span<const Profiles> meshes, std::size_t profile,
                         SearchOptions options, const PipelineOptions& pipeline) {
  std::vector<cost::CostModel> costs;
  for (const Profiles& mesh : meshes) costs.push_back(*mesh[profile].cost);
  options.pins = pins_by_profile(options.pins, meshes.front())[profile];
  options.time_limit_seconds *= share_of_cuts;
  const graph::Graph& graph = graph_of(meshes.front()[profile]);
  return search_pipeline(graph, graph, costs, options, pipeline);
}

std::map<std::string, int> stages_of_operators(const plan::PipelinePlan& plan) {
  std::map<std::string, int> stage_of;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const graph::Node& node : plan.stages[s].stage.graph.nodes)
      stage_of.emplace(node.name, static_cast<int>(s));
  return stage_of;
}

/// By stage and profile.
std::vector<std::vector<graph::StageGraph>> cut_alike(const Profiles& profiles,
                                                      const plan::PipelinePlan& plan) {
  const std::map<std::string, int> stage_of = stages_of_operators(plan);
  const std::size_t count = plan.stages.size();
  std::vector<std::vector<graph::StageGraph>> stages(count);
  for (const Profile& profile : profiles) {
    const graph::StageCutter cutter(graph_of(profile));
    const LayerCuts cuts =
        similar_cuts(graph_of(profile), cutter, stage_of, static_cast<int>(count));
    for (std::size_t s = 0; s < count; ++s) stages[s].push_back(cutter.cut(cuts[s], cuts[s + 1]));
  }
  return stages;
}

/// Those of the model's pins that are for a stage of it in any profile.
std::vector<Pin> pins_of_stage(const std::vector<Pin>& pins, const Profiles& profiles,
                               const std::vector<graph::StageGraph>& stage) {
  std::vector<Pin> own;
  for (const Pin& pin : pins) {
    for (std::size_t p = 0; p < profiles.size(); ++p) {
      if (auto found = pin_of_stage(pin, graph_of(profiles[p]), stage[p].graph)) {
        own.push_back(std::move(*found));
        break;
      }
    }
  }
  return own;
}

/// The views that a stage of so many devices may have.
std::vector<sharding::DeviceMesh> views_of(int devices, const cost::CostModel& all,
                                           const PipelineOptions& pipeline) {
  for (Submesh& submesh : submeshes(all.mesh().num_devices(), all.device(), pipeline.mesh))
    if (submesh.devices == devices) return std::move(submesh.views);
  throw InternalError("internal error: a stage has the devices of a submesh");
}

JointPlan search_stage(const Profiles& profiles, const std::vector<graph::StageGraph>& stage,
                       const std::vector<sharding::DeviceMesh>& views, SearchOptions options) {
  std::deque<cost::CostModel> costs;
  std::vector<Profiles> meshes;
  for (const sharding::DeviceMesh& view : views) {
    Profiles& on_view = meshes.emplace_back();
    for (std::size_t p = 0; p < profiles.size(); ++p) {
      costs.emplace_back(profiles[p].cost->device(), view);
      on_view.push_back({&stage[p], &costs.back(), profiles[p].weight, profiles[p].name});
    }
  }
  options.pins = pins_of_stage(options.pins, profiles, stage);
  return search_meshes(meshes, options);
}

/// The transfer of one microbatch, as the search prices it.
double seconds_between(const plan::StagePlan& from, const plan::StagePlan& to,
                       const cost::DeviceModel& device) {
  const cost::Link& link = device.boundary_link(to.first_rank);
  const int devices = std::min(from.num_devices(), to.num_devices());
  double seconds = 0;
  for (const graph::ValueId id : from.stage.sent) {
    const graph::Value& value = from.stage.graph.value(id);
    const auto bytes = graph::bytes_of(value.type, graph::num_elements(value.shape));
    seconds += cost::transfer_seconds(bytes, devices, devices, link);
  }
  return in_seconds(picoseconds(seconds, "what crosses between two stages"));
}

void finish(plan::PipelinePlan& plan, const cost::DeviceModel& device) {
  for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s)
    plan.stages[s].transfer_seconds = seconds_between(plan.stages[s], plan.stages[s + 1], device);
  plan.predicted = plan::pipeline_prediction(plan);
}

plan::Prediction predict(const Profiles& profiles, const std::vector<plan::PipelinePlan>& plans) {
  plan::Prediction all;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const plan::Prediction& own = plans[p].predicted;
    all.cost_seconds += profiles[p].weight * own.cost_seconds;
    all.communication_seconds += profiles[p].weight * own.communication_seconds;
    all.weight_bytes = std::max(all.weight_bytes, own.weight_bytes);
    all.peak_bytes = std::max(all.peak_bytes, own.peak_bytes);
  }
  return all;
}

/// No plan in any stages takes less: the profile that was searched its bound, all others their
/// operators' shares, of which the slowest stage has no less than the average one.
double lower_bound(const Profiles& profiles, std::size_t searched, double bound,
                   const PipelineOptions& pipeline) {
  const int devices = profiles.front().cost->mesh().num_devices();
  const int most_stages = pipeline.stages > 0 ? pipeline.stages : devices;
  const int parts = pipeline.objective == plan::Objective::latency ? 1 : most_stages;
  double sum = profiles[searched].weight * bound;
  for (std::size_t p = 0; p < profiles.size(); ++p) {
    const Profile& each = profiles[p];
    if (p == searched) continue;
    const double shares = least_seconds_on(devices, graph_of(each), each.cost->device());
    sum += each.weight * shares / parts;
  }
  return sum;
}

/// The same cuts for all profiles, with each stage searched for all of them.
std::vector<plan::PipelinePlan> plan_stages(const Profiles& profiles, const plan::PipelinePlan& cut,
                                            const SearchOptions& options,
                                            const PipelineOptions& pipeline, SearchReport& report) {
  const Stopwatch stopwatch;
  const auto stages = cut_alike(profiles, cut);
  std::vector<plan::PipelinePlan> plans(profiles.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int first_rank = cut.stages[s].first_rank;
    SearchOptions own = options;
    own.warns = false;
    const double left = options.time_limit_seconds - stopwatch.seconds();
    own.time_limit_seconds = std::max(0.0, left) / static_cast<double>(stages.size() - s);
    if (s > 0) own.rank0_bytes = 0;  // rank 0 is in the first stage
    const auto views = views_of(cut.stages[s].num_devices(), *profiles.front().cost, pipeline);
    JointPlan joint = search_stage(profiles, stages[s], views, own);
    report.glpk_seconds += joint.report.glpk_seconds;
    for (std::size_t p = 0; p < profiles.size(); ++p)
      plans[p].stages.push_back(
          {.stage = stages[s][p], .first_rank = first_rank, .plan = std::move(joint.plans[p])});
  }
  for (std::size_t p = 0; p < profiles.size(); ++p) {
    plans[p].objective = pipeline.objective;
    finish(plans[p], profiles[p].cost->device());
  }
  return plans;
}

/// Where the profile that was cut is best in one stage, all are in one.
std::vector<plan::PipelinePlan> plan_in_one_stage(std::span<const Profiles> meshes,
                                                  const SearchOptions& options,
                                                  SearchReport& report) {
  JointPlan joint = search_meshes(meshes, options);
  report.glpk_seconds += joint.report.glpk_seconds;
  std::vector<plan::PipelinePlan> plans;
  for (std::size_t p = 0; p < joint.plans.size(); ++p)
    plans.push_back(plan::one_stage_plan(graph_of(meshes.front()[p]), std::move(joint.plans[p])));
  return plans;
}

}  // namespace

JointPipeline search_joint_pipeline(std::span<const Profiles> meshes, const SearchOptions& options,
                                    const PipelineOptions& pipeline) {
  require(!meshes.empty() && pipeline.microbatches == 1, "profiles have one microbatch");
  const InterruptionGuard guard{SIGINT};  // Ctrl-C: the best so far will do
  const Stopwatch stopwatch;
  const Profiles& profiles = meshes.front();
  const std::size_t first = heaviest(profiles);
  const FoundPipeline cut = search_one(meshes, first, options, pipeline);
  JointPipeline found{.plans = {}, .predicted = {}, .report = cut.report};
  SearchReport& report = found.report;
  SearchOptions of_all = options;
  of_all.time_limit_seconds = std::max(0.0, options.time_limit_seconds - stopwatch.seconds());
  found.plans = cut.plan.stages.size() == 1
                    ? plan_in_one_stage(meshes, of_all, report)
                    : plan_stages(profiles, cut.plan, of_all, pipeline, report);
  found.predicted = predict(profiles, found.plans);
  const double bound = lower_bound(profiles, first, cut.report.lower_bound_seconds, pipeline);
  report.lower_bound_seconds = std::min(bound, found.predicted.cost_seconds);
  report.proven_optimal = bound >= found.predicted.cost_seconds;
  report.bound_is_searched = false;
  report.meshes.clear();
  report.search_seconds = stopwatch.seconds();
  report.one_device_seconds = least_seconds_on(1, profiles);
  report.one_device_bytes = bytes_on_one_device(profiles);
  return found;
}

}  // namespace autopar::search
