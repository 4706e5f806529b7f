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
                                                      const std::vector<int>& seeds);

/// The double recursion of MindSpore (D-Rec: Wang et al., "Efficient and Systematic Partitioning of
/// Large and Deep Neural Networks for Parallelization", Euro-Par 2021): the devices are cut again
/// and again, by one mesh axis after the other (a strategy has a whole axis on one factor, so that
/// halvings within an axis could not differ). For each cut the heaviest operators choose first what
/// it splits, by computation and by the communication that it causes, and the rest follows from
/// them. A fixed number of linear sweeps then improves what was chosen. Linear in operators, but
/// for sorting them. `limited` and nullopt are as above.
std::optional<std::vector<int>> choose_recursively(const PlanProblem& built,
                                                   const assignment::AssignmentProblem& limited,
                                                   const sharding::DeviceMesh& mesh);

/// Operators, as nodes of the problem, by what their dearest strategy costs, with its
/// communication; heaviest first.
std::vector<int> heaviest_first(const PlanProblem& built);

}  // namespace autopar::search
