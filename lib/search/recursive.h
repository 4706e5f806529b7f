#pragma once

#include <optional>
#include <vector>

#include "search/plan_builder.h"

namespace autopar::search {

/// The double recursion of MindSpore (D-Rec; Wang et al., "Double Recursive algorithm" for
/// automatic operator-level parallelism): the devices are cut one mesh axis at a time, in order;
/// for each cut the heaviest operators choose first what it splits, by computation and by the
/// communication that the cut causes, and the rest follows from them. A fixed number of linear
/// sweeps then improves what was chosen. Linear in operators (but for sorting them). `limited` is
/// the built problem, maybe with other limits. nullopt where no repair brings the result within
/// them.
std::optional<std::vector<int>> choose_recursively(const PlanProblem& built,
                                                   const AssignmentProblem& limited,
                                                   const sharding::DeviceMesh& mesh);

}  // namespace autopar::search
