#pragma once

#include <optional>
#include <vector>

#include "search/plan_builder.h"

namespace autopar::search {

/// Propagation as MindSpore does it: breadth first from `seeds`, operators whose strategy the user
/// has set, each other operator gets the strategy with the least resharding on the edges to those
/// already decided, of equal ones that with the least own cost. A seed that is open yet, and the
/// heaviest operator of each part of the graph without seeds, gets what is cheapest by itself
/// within the weights' fair share. `limited` is the built problem, maybe with other limits. nullopt
/// where no repair brings the result within them.
std::optional<std::vector<int>> choose_by_propagation(const PlanProblem& built,
                                                      const assignment::AssignmentProblem& limited,
                                                      const sharding::DeviceMesh& mesh,
                                                      const std::vector<graph::NodeId>& seeds);

/// Operators by what their dearest strategy costs, with its communication; heaviest first.
std::vector<graph::NodeId> heaviest_first(const PlanProblem& built);

}  // namespace autopar::search
