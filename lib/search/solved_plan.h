#pragma once

#include <vector>

#include "search/plan_builder.h"

namespace autopar::search {

/// A plan with the problem that it solves, for whoever asks what else might have been chosen.
struct SolvedPlan {
  plan::Plan plan;
  PlanProblem built;        ///< its usage limits are those under which the plan was found
  std::vector<int> choice;  ///< the plan's, by node of the problem
};

/// As search_plan, without throwing the problem away.
SolvedPlan search_solved_plan(const graph::Graph& graph, const cost::CostModel& cost,
                              const SearchOptions& options);

/// A solver's choice in the words of a plan, without a summary.
plan::Plan decode(const PlanProblem& built, const std::vector<int>& choice,
                  const cost::CostModel& cost);

}  // namespace autopar::search
