#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assignment/assignment_problem.h"
#include "cost/cost_model.h"
#include "plan/plan.h"
#include "search/operator_strategies.h"
#include "search/search_options.h"

namespace autopar::search {

/// A graph's sharding as an assignment problem, and what its strategies mean. Costs are
/// picoseconds.
struct PlanProblem {
  assignment::AssignmentProblem problem;
  /// By NodeId, which is the index of the operator's node in the problem too.
  std::vector<std::shared_ptr<const OperatorStrategies>> operators;
  /// Model inputs and constants: the problem's node and its strategies.
  struct Stored {
    int node = 0;
    std::vector<sharding::TensorShardSpec> specs;
  };
  std::map<graph::ValueId, Stored> stored;
  std::vector<std::string> operators_without_rule;  ///< types, one entry an operator; loops by name
};

/// `received`: inputs that come from another mesh. Throws Error for a pin that names nothing or
/// that no strategy satisfies.
PlanProblem build_plan_problem(const graph::Graph& graph, const cost::CostModel& cost,
                               const SearchOptions& options,
                               std::span<const graph::ValueId> received = {});

/// The plan that a choice stands for, without what it predicts.
plan::Plan decode(const PlanProblem& built, const std::vector<int>& choice,
                  const cost::CostModel& cost);

}  // namespace autopar::search
