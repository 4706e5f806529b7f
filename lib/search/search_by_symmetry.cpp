#include "search/search_by_symmetry.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "search/plan_task.h"
#include "search/search_at_rest.h"

namespace autopar::search {

namespace {

/// The part of its time in which a problem is to be built. One that takes longer, as of tensors of
/// many dimensions on many axes, would leave none to solve it, and be too large for memory, too.
constexpr double share_of_building = 0.8;

/// The symmetric ones; where none are, each axis by itself, and only its place in a dimension's
/// order is not told apart.
sharding::SymmetricAxes relaxed_axes(const cost::CostModel& cost) {
  sharding::SymmetricAxes axes = symmetric_axes(cost);
  if (!axes.empty()) return axes;
  axes.resize(static_cast<std::size_t>(cost.mesh().num_axes()));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

/// `own` are the options of what is to be done with them.
std::vector<Profile> with_symmetry(std::span<const Profile> profiles, const Stopwatch& stopwatch,
                                   const SearchOptions& own) {
  const double passed = stopwatch.seconds();
  const TimeLimit limit(stopwatch, passed + share_of_building * (own.time_limit_seconds - passed));
  std::vector<Profile> relaxed(profiles.begin(), profiles.end());
  for (Profile& profile : relaxed)
    profile.symmetry = {.axes = relaxed_axes(*profile.cost), .limit = limit};
  return relaxed;
}

/// Nullopt where that takes too long.
std::optional<PlanProblem> build_in_time(std::span<const Profile> profiles,
                                         const SearchOptions& options, CountedMemory counted) {
  try {
    return build_plan_problem(profiles, options, counted);
  } catch (const OutOfTime&) {
    return std::nullopt;
  }
}

}  // namespace

sharding::SymmetricAxes symmetric_axes(const cost::CostModel& cost) {
  const int count = cost.mesh().num_axes();
  sharding::SymmetricAxes first(static_cast<std::size_t>(count));
  std::iota(first.begin(), first.end(), 0);
  bool are_any = false;
  for (int axis = 0; axis < count; ++axis)
    for (int before = axis; before-- > 0;)
      if (cost.are_symmetric(before, axis)) {
        first[axis] = first[before];
        are_any = true;
        break;
      }
  return are_any ? first : sharding::SymmetricAxes{};
}

bool has_symmetry(std::span<const Profile> profiles, const SearchOptions& options) {
  return options.pins.empty() && std::ranges::all_of(profiles, [](const Profile& profile) {
           return profile.stage->received.empty() && !symmetric_axes(*profile.cost).empty();
         });
}

Relaxation relax_symmetry(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                          const SearchOptions& options, double share) {
  const SearchOptions own = within_share(options, stopwatch, share);
  const std::vector<Profile> relaxed = with_symmetry(profiles, stopwatch, own);
  auto built = build_in_time(relaxed, own, CountedMemory::at_rest);
  if (!built) return {};
  const PlanTask task{
      .stopwatch = stopwatch, .profiles = relaxed, .options = own, .built = *std::move(built)};
  Incumbent none;
  const assignment::Solution solution = solve_exactly(task, task.built.problem, none, {.share = 1});
  Relaxation found{.lower_bound_seconds = in_seconds(bound_of(solution))};
  if (solution.choice.empty()) return found;
  for (std::size_t p = 0; p < relaxed.size(); ++p)
    found.forms.push_back(decode(task.built, solution.choice, *relaxed[p].cost, p));
  return found;
}

std::optional<JointPlan> best_of_forms(const Stopwatch& stopwatch,
                                       std::span<const Profile> profiles,
                                       const SearchOptions& options, double share,
                                       const std::vector<plan::Plan>& forms) {
  const SearchOptions own = within_share(options, stopwatch, share);
  std::vector<Profile> chosen = with_symmetry(profiles, stopwatch, own);
  for (std::size_t p = 0; p < chosen.size(); ++p) chosen[p].symmetry.chosen = &forms[p];
  // Sums tell what fits where shards do not.
  const CountedMemory counted =
      options.run_bytes ? CountedMemory::at_rest : CountedMemory::over_time;
  auto built = build_in_time(chosen, own, counted);
  if (!built) return std::nullopt;
  PlanTask task{
      .stopwatch = stopwatch, .profiles = chosen, .options = own, .built = *std::move(built)};
  Incumbent best;
  improve_at_rest(task, best);
  if (best.choice.empty()) return std::nullopt;
  const assignment::Cost bound = bound_of_operators(task);
  return answer_of(std::move(task), std::move(best), bound);
}

}  // namespace autopar::search
