#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/operator_groups.h"
#include "plan/pipeline_plan.h"
#include "program/memory_peak.h"
#include "search/stages/search_pipeline.h"

namespace autopar::planner {

/// All that `autopar plan` tells of a plan.
struct PlanReport {
  std::vector<plan::CollectiveUse> collectives;  ///< of all stages
  struct Stage {
    program::MemoryPeak peak;  ///< of its first rank, whose shares are the largest
    std::vector<plan::OperatorGroup> groups;
  };
  std::vector<Stage> stages;
};

PlanReport make_plan_report(const plan::PipelinePlan& plan, const cost::DeviceModel& device);
std::string report_text(const search::FoundPipeline& found, const PlanReport& report);

/// A line for each kind of collective.
std::string collectives_table(std::span<const plan::CollectiveUse> uses);

/// The strategy; an input that is produced in another spec than it is read in has both:
/// "RS0>RR,S0R->RR+P0 all-reduce".
std::string strategy_text(const sharding::OpShardSpec& strategy,
                          std::span<const sharding::TensorShardSpec> inputs_as);

}  // namespace autopar::planner
