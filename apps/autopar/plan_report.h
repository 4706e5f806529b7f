#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "partition/memory_peak.h"
#include "search/operator_groups.h"
#include "search/pipeline_plan.h"

namespace autopar {

/// All that `autopar plan` tells of a plan.
struct PlanReport {
  std::vector<search::CollectiveUse> collectives;  ///< of all stages
  struct Stage {
    partition::MemoryPeak peak;  ///< of its first rank, whose shares are the largest
    std::vector<search::OperatorGroup> groups;
  };
  std::vector<Stage> stages;
};

PlanReport make_plan_report(const search::PipelinePlan& plan, const cost::DeviceModel& device);
std::string report_text(const search::PipelinePlan& plan, const PlanReport& report);

/// A line for each kind of collective.
std::string collectives_table(std::span<const search::CollectiveUse> uses);

/// The strategy with what comes otherwise than it is read: "RS0>RR,S0R->RR+P0 all-reduce".
std::string strategy_text(const sharding::OpShardSpec& strategy,
                          std::span<const sharding::TensorShardSpec> inputs_as);

}  // namespace autopar
