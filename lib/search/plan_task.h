#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "assignment/assignment_problem.h"
#include "base/stopwatch.h"
#include "search/search_plan.h"

namespace autopar::search {

/// No memory is known to be enough.
inline constexpr std::int64_t unknown_bytes = std::numeric_limits<std::int64_t>::max();
/// Nodes from which on a problem is large: proofs and the search of the least memory take long.
inline constexpr std::size_t least_nodes_of_large = 2000;
/// A plan that is proven to this part needs no further search.
inline constexpr double small_gap = 1e-3;
/// Seconds of a thread from which on they say something of the machine.
inline constexpr double least_timed = 0.01;

/// What one search of a plan is for. All of it is known before the first solve.
struct PlanTask {
  Stopwatch stopwatch{};  ///< since the search began
  std::span<const Profile> profiles;
  const SearchOptions& options;
  const JointPlan* coarser = nullptr;  ///< a plan on a coarser mesh, if there is one
  Stopwatch build{};                   ///< since building the problem began, as the next one
  ThreadStopwatch build_on_core{};
  PlanProblem built;
  const double build_seconds = build.seconds();
  /// Seconds that pass while a thread runs for one, as building has shown: more than 1 where other
  /// processes take the cores.
  const double slowdown =
      std::max(1.0, build_seconds / std::max(least_timed, build_on_core.seconds()));

  const sharding::DeviceMesh& mesh() const { return profiles.front().cost->mesh(); }

  bool is_small() const { return built.problem.nodes.size() < least_nodes_of_large; }
  bool is_exact() const { return options.method == SearchMethod::ilp; }
  double seconds_left() const { return options.time_limit_seconds - stopwatch.seconds(); }
  /// Seconds until the search must end where it has no plan yet: a tenth of the limit and a second
  /// more than seconds_left().
  double seconds_to_end() const {
    return std::max(0.0, seconds_left() + 0.1 * options.time_limit_seconds + 1);
  }
  /// Bytes of a device that weights and activations together may take.
  std::int64_t limit() const { return limit_of(options.memory, profiles.front().cost->device()); }
};

/// The cheapest plan so far whose shards fit, and what later solves may use of earlier ones.
struct Incumbent {
  std::vector<int> choice;  ///< empty where there is none
  assignment::Cost cost = assignment::impossible;
  std::vector<plan::Plan> plans;         ///< by profile
  std::vector<std::vector<int>> starts;  ///< choices that the next exact solve begins with
  double glpk_seconds = 0;               ///< of all solves
  double seconds_to_predict = 0;         ///< what the longest prediction of shards has taken
  std::vector<int> without_limits;       ///< the cheapest choice of all, where it is not fair
  std::vector<int> recursive;            ///< of the recursive search, while not yet considered
};

/// The largest sum of what is alive, as the search counts it.
std::int64_t summed_peak(const PlanTask& task, const std::vector<int>& choice);

/// A choice's plans with their peaks alone predicted. Notes in the incumbent how long that took.
std::vector<plan::Plan> plans_of(const PlanTask& task, const std::vector<int>& choice,
                                 Incumbent& incumbent);

/// Bytes that the profile needs that needs most.
std::int64_t peak_of(const std::vector<plan::Plan>& plans);

/// Whether what is in memory at rest is within its limit.
bool is_fair(const PlanTask& task, const std::vector<int>& choice);

/// Takes the fair choice where it is cheaper than the incumbent and its shards fit. Returns the
/// bytes by which its peak exceeds the limit, negative where it is below.
std::int64_t consider(const PlanTask& task, const std::vector<int>& choice, Incumbent& incumbent);

/// The time of one exact solve.
struct SolveTime {
  double share = 0.85;  ///< of what is left, without that for predicting what its plan needs
  double least_seconds = 0;
  double patience_seconds =
      3;  ///< of work, after which a plan is good enough that is nearly proven
  double work_limit_seconds = assignment::unlimited_seconds;
};

assignment::Solution solve_exactly(const PlanTask& task,
                                   const assignment::AssignmentProblem& problem,
                                   Incumbent& incumbent, const SolveTime& time = {});

/// The cheapest choice that stands for the same plan in the task's problem, where `from` counts
/// memory otherwise; empty where there is none.
std::vector<int> carried_over(const PlanProblem& from, const std::vector<int>& choice,
                              const PlanTask& task);

/// No choice costs less than every operator's cheapest strategy.
assignment::Cost bound_of_operators(const PlanTask& task);
/// 0 where nothing can be chosen.
assignment::Cost bound_of(const assignment::Solution& solution);

/// The incumbent as the answer of the search. `lower_bound`: no plan costs less.
JointPlan answer_of(PlanTask task, Incumbent best, assignment::Cost lower_bound);

}  // namespace autopar::search
