#pragma once

#include <cstdint>
#include <vector>

#include "assignment/assignment_problem.h"
#include "base/stopwatch.h"
#include "search/search_plan.h"

namespace autopar::search {

/// What one search of a plan is for. All of it is known before the first solve.
struct PlanTask {
  Stopwatch stopwatch{};  ///< from before the problem was built
  const graph::StageGraph& stage;
  const cost::CostModel& cost;
  const SearchOptions& options;
  PlanProblem built;

  bool is_exact() const { return options.method == SearchMethod::ilp; }
  double seconds_left() const { return options.time_limit_seconds - stopwatch.seconds(); }
  /// Bytes of weights and activations together.
  std::int64_t limit() const { return built.problem.usage_limits.back(); }
};

/// The cheapest plan so far whose shards fit, and what later solves may use of earlier ones.
struct Incumbent {
  std::vector<int> choice;  ///< empty where there is none
  assignment::Cost cost = assignment::impossible;
  plan::Plan plan;
  std::vector<std::vector<int>> starts;  ///< choices that the next exact solve begins with
  double glpk_seconds = 0;               ///< of all solves
};

/// The largest sum of what is alive, as the search counts it.
std::int64_t summed_peak(const PlanTask& task, const std::vector<int>& choice);

/// A choice's plan with its peak alone predicted.
plan::Plan plan_of(const PlanTask& task, const std::vector<int>& choice);

/// Takes the choice where it is cheaper than the incumbent and its shards fit. Returns the bytes by
/// which its peak exceeds the limit, negative where it is below.
std::int64_t consider(const PlanTask& task, const std::vector<int>& choice, Incumbent& incumbent);

/// Within a share of the time left where limits bind, since more may have to follow; at least
/// `least_seconds`.
assignment::Solution solve_exactly(const PlanTask& task,
                                   const assignment::AssignmentProblem& problem,
                                   Incumbent& incumbent, double least_seconds = 0);

/// The cheapest choice that stands for the same plan in a problem that counts memory otherwise;
/// empty where there is none.
std::vector<int> carried_over(const PlanProblem& from, const std::vector<int>& choice,
                              const PlanProblem& to);

}  // namespace autopar::search
