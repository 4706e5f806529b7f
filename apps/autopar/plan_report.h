#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "partition/memory_peak.h"
#include "search/operator_groups.h"
#include "search/plan.h"

namespace autopar {

/// All that `autopar plan` tells of a plan.
struct PlanReport {
  std::vector<search::CollectiveUse> collectives;
  partition::MemoryPeak peak;  ///< of rank 0, whose shares are the largest
  std::vector<search::OperatorGroup> groups;
};

PlanReport make_plan_report(const graph::Graph& graph, const cost::CostModel& cost,
                            const search::Plan& plan);
std::string report_text(const graph::Graph& graph, const search::Plan& plan,
                        const PlanReport& report);

/// A line for each kind of collective.
std::string collectives_table(std::span<const search::CollectiveUse> uses);

/// The strategy with what comes otherwise than it is read: "RS0>RR,S0R->RR+P0 all-reduce".
std::string strategy_text(const sharding::OpShardSpec& strategy,
                          std::span<const sharding::TensorShardSpec> inputs_as);

}  // namespace autopar
