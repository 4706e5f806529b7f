#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/stopwatch.h"
#include "cost/cost_model.h"
#include "graph/graph.h"
#include "graph/stage_graph.h"
#include "plan/plan.h"
#include "search/plan_builder.h"
#include "search/search_options.h"
#include "search/search_report.h"

namespace autopar::search {

/// A plan with the problem that it solves, for whoever asks what else might have been chosen.
struct SolvedPlan {
  plan::Plan plan;
  SearchReport report;
  PlanProblem built;        ///< its usage limits are those under which the plan was found
  std::vector<int> choice;  ///< the plan's, by node of the problem
};

/// The plans of several profiles with the problem that they solve together.
struct JointPlan {
  std::vector<plan::Plan> plans;  ///< by profile; each predicts one run of it, without its weight
  /// Seconds are summed by weight; memory is what the profile needs that needs most, with the
  /// weights of all.
  plan::Prediction predicted;
  SearchReport report;
  PlanProblem built;
  std::vector<int> choice;
};

/// The plan of the one profile that there was.
SolvedPlan only_plan(JointPlan found);

/// One line that names the operators without a rule and counts them; none where there are none.
void warn_of_missing_rules(const graph::Graph& graph);

/// No plan fits the memory limit.
struct NothingFits : Error {
  NothingFits(const std::string& message, std::int64_t bytes, bool proven)
      : Error(message), least_bytes(bytes), is_proven(proven) {}
  std::int64_t least_bytes;  ///< the smallest limit that is known to be enough
  bool is_proven;            ///< false: as far as the time limit let see
};

/// The best plans of the strategy space for all profiles together under the cost model, or what a
/// quicker method takes for such. Each plan's peak keeps within the memory limit. Throws Error
/// where a pin names no operator or leaves one without a strategy, and NothingFits. Operators
/// without a rule are run replicated and named in one warning. An exact search begins with what
/// `coarser`, plans of the same profiles on a coarser mesh, suggests (coarse_plan.h).
JointPlan search_plan(std::span<const Profile> profiles, const SearchOptions& options,
                      const JointPlan* coarser = nullptr);
/// The same for one graph.
SolvedPlan search_plan(const graph::Graph& graph, const cost::CostModel& cost,
                       const SearchOptions& options);
/// For a pipeline's stage. What arrives there is stored in a spec of
/// sharding::receive_specs, however small it is, and no pin is for it.
SolvedPlan search_plan(const graph::StageGraph& stage, const cost::CostModel& cost,
                       const SearchOptions& options);

/// The part of search_plan that solves one problem of all strategies. The time limit is counted
/// from the stopwatch's start.
JointPlan search_whole_problem(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                               const SearchOptions& options, const JointPlan* coarser);

/// The same plan as a choice of the problem of all strategies, for whoever asks what else might
/// have been chosen: steps of descent know few. Unchanged where that problem is too large to build.
JointPlan with_all_strategies(std::span<const Profile> profiles, const SearchOptions& options,
                              JointPlan plan);

}  // namespace autopar::search
