#include "planner/report/report_data.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "planner/report/flow.h"
#include "planner/report/memory_use.h"
#include "planner/report/timeline.h"
#include "planner/simulated_trace.h"
#include "program/pipeline_program.h"

namespace autopar::planner {

namespace {

using nlohmann::json;

/// The first of each stage's, which all do the same at the same time.
std::vector<TimelineRank> first_ranks(const plan::PipelinePlan& plan) {
  std::vector<TimelineRank> ranks;
  for (const plan::StagePlan& stage : plan.stages)
    ranks.push_back({stage.first_rank, stage.first_rank + stage.num_devices() - 1,
                     static_cast<int>(ranks.size())});
  return ranks;
}

std::vector<TimelineRank> all_ranks(const plan::PipelinePlan& plan) {
  std::vector<TimelineRank> ranks;
  for (int rank = 0; rank < plan.num_devices(); ++rank)
    ranks.push_back({rank, rank, static_cast<int>(program::stage_of(plan, rank))});
  return ranks;
}

void add_measured(const ReportedPlan& reported, const plan::PipelinePlan& plan, json& profile) {
  const auto ranks = static_cast<std::size_t>(plan.num_devices());
  const bool all_work = std::ranges::none_of(reported.measured, &std::vector<runtime::Span>::empty);
  if (reported.measured.size() != ranks || !all_work)
    fail("--measured: the trace is not of a run of all {} ranks of this plan", ranks);
  profile["measured_timeline"] = timeline_json(reported.measured, all_ranks(plan));
  profile["measured_by_type"] = type_costs_json(reported.measured, all_ranks(plan));
}

json profile_json(const ReportedPlan& reported, const ReportedProfile& profile) {
  const auto& [binding, weight, plan, device] = profile;
  const program::PipelineProgram program = program::lower(*plan, *device);
  const std::vector<TimelineRank> told = first_ranks(*plan);
  std::vector<int> ranks;
  for (const TimelineRank& of : told) ranks.push_back(of.rank);
  const auto spans = simulated_spans(*plan, program, *device, ranks);
  json text{{"binding", binding},
            {"weight", weight},
            {"flow", flow_json(*plan, program, *device)},
            {"memory", memory_json(*plan, program, *device, reported.memory_limit_bytes)},
            {"timeline", timeline_json(spans, told)},
            {"cost_by_type", type_costs_json(spans, told)}};
  if (!reported.measured.empty()) add_measured(reported, *plan, text);
  return text;
}

}  // namespace

json report_data(const ReportedPlan& reported) {
  if (!reported.measured.empty() && reported.profiles.size() > 1)
    fail("--measured: a trace is of one profile, and this plan has {}", reported.profiles.size());
  json plan = reported.plan;
  plan.erase("operators");
  json profiles = json::array();
  for (const ReportedProfile& profile : reported.profiles)
    profiles.push_back(profile_json(reported, profile));
  return {{"kind", "plan"},
          {"model", reported.model},
          {"plan", std::move(plan)},
          {"profiles", std::move(profiles)}};
}

json comparison_data(json comparison) {
  return {{"kind", "comparison"}, {"comparison", std::move(comparison)}};
}

json sizing_data(const std::string& model, const std::string& assumed, json sizing) {
  return {
      {"kind", "sizing"}, {"model", model}, {"assumed", assumed}, {"sizing", std::move(sizing)}};
}

}  // namespace autopar::planner
