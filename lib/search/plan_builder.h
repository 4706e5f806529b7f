#pragma once

#include <map>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "search/assignment_problem.h"
#include "search/plan.h"
#include "search/search_plan.h"

namespace autopar::search {

/// A graph's sharding as an assignment problem, and what its strategies mean. Costs are
/// picoseconds.
struct PlanProblem {
  AssignmentProblem problem;
  /// Strategies by NodeId, which is the index of the operator's node in the problem too.
  std::vector<std::vector<sharding::OpShardSpec>> operators;
  /// Model inputs and constants: the problem's node and its strategies.
  struct Stored {
    int node = 0;
    std::vector<sharding::TensorShardSpec> specs;
  };
  std::map<graph::ValueId, Stored> stored;
  std::vector<std::string> operators_without_rule;  ///< qualified types, one entry an operator
};

/// Throws Error for a pin that names nothing or that no strategy satisfies.
PlanProblem build_plan_problem(const graph::Graph& graph, const cost::CostModel& cost,
                               const SearchOptions& options);

inline constexpr double seconds_per_cost = 1e-12;

}  // namespace autopar::search
