#include "search/first_plans.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "search/coarse_plan.h"
#include "search/quick_searches.h"

namespace autopar::search {

namespace {

/// What the recursive search takes for a cell of an edge's table, seen on an ordinary core.
constexpr double recursive_seconds_a_cell = 4e-8;
/// What predicting a plan's memory takes, seen likewise.
constexpr double prediction_seconds_an_operator = 1e-4;
/// The part of the time that the recursive search may take where the search is exact.
constexpr double share_of_recursive = 0.05;
/// The part of the time for plans on coarser meshes then.
constexpr double share_of_coarser = 0.1;
/// The least time for them on a core of one's own, by axis of the finest of them, as a part of the
/// time left at most.
constexpr double least_seconds_an_axis = 1.25;
constexpr double most_of_coarser = 0.5;

/// About what choose_recursively takes.
double seconds_of_recursive(const PlanTask& task) {
  double cells = 0;
  for (const auto& edge : task.built.problem.edges) cells += static_cast<double>(edge.costs.size());
  return task.slowdown * recursive_seconds_a_cell * cells;
}

/// About what predicting a plan's memory takes, before one has been predicted.
double seconds_of_prediction(const PlanTask& task) {
  const auto operators = static_cast<double>(task.built.operators.size());
  return task.slowdown * prediction_seconds_an_operator * operators;
}

/// For plans on coarser meshes.
double seconds_of_coarser(const PlanTask& task) {
  const double seconds = least_seconds_an_axis * (task.mesh().num_axes() - 1);
  const double least = std::min(task.slowdown * seconds, most_of_coarser * task.seconds_left());
  return std::max(share_of_coarser * task.options.time_limit_seconds, least);
}

/// The same plan on the task's mesh; nullopt where that does not come from its axes.
std::optional<std::vector<int>> refined_on(const JointPlan& coarser, const PlanTask& task) {
  const auto runs = runs_between(coarser.plans.front().mesh, task.mesh());
  return runs ? refined(coarser.built, coarser.choice, *runs, task.built) : std::nullopt;
}

}  // namespace

bool is_recursive_quick(const PlanTask& task) {
  return seconds_of_recursive(task) < share_of_recursive * task.options.time_limit_seconds;
}

void start_from_recursive(const PlanTask& task, Incumbent& incumbent) {
  auto quick = choose_recursively(task.built, task.built.problem, task.mesh());
  if (!quick) return;
  incumbent.seconds_to_predict =
      std::max(incumbent.seconds_to_predict, seconds_of_prediction(task));
  incumbent.starts.push_back(*quick);
  incumbent.recursive = std::move(*quick);
}

void consider_recursive(const PlanTask& task, Incumbent& incumbent) {
  const std::vector<int> quick = std::exchange(incumbent.recursive, {});
  if (!quick.empty() && assignment::cost_of(task.built.problem, quick) < incumbent.cost)
    consider(task, quick, incumbent);
}

void start_from_coarser(const PlanTask& task, Incumbent& incumbent) {
  if (!task.options.pins.empty()) return;
  auto start = task.coarser != nullptr ? refined_on(*task.coarser, task) : std::nullopt;
  if (!start)
    start = choose_from_coarser(task.built, task.profiles, task.options, seconds_of_coarser(task));
  if (start) incumbent.starts.push_back(std::move(*start));
}

std::optional<JointPlan> plan_on_one_axis(std::span<const Profile> profiles,
                                          const SearchOptions& options) {
  const sharding::DeviceMesh one_axis({profiles.front().cost->mesh().num_devices()});
  const ProfilesOn coarsest(one_axis, profiles);
  try {
    PlanTask task{.profiles = coarsest.profiles,
                  .options = options,
                  .built = build_plan_problem(coarsest.profiles, options)};
    const assignment::AssignmentProblem& problem = task.built.problem;
    if (!assignment::may_be_within_limits(problem)) return std::nullopt;
    const auto choice = choose_recursively(task.built, problem, task.mesh());
    Incumbent best;
    if (choice) consider(task, *choice, best);
    if (best.choice.empty()) return std::nullopt;
    const assignment::Cost bound = bound_of_operators(task);
    return answer_of(std::move(task), std::move(best), bound);
  } catch (const NothingFits&) {
    return std::nullopt;
  }
}

}  // namespace autopar::search
