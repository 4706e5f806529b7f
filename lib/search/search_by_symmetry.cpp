#include "search/search_by_symmetry.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "search/plan_task.h"
#include "search/search_at_rest.h"

namespace autopar::search {

namespace {

/// The options with a time limit that leaves the rest to others.
SearchOptions within_share(const SearchOptions& options, const Stopwatch& stopwatch, double share) {
  SearchOptions own = options;
  const double passed = stopwatch.seconds();
  own.time_limit_seconds = passed + share * std::max(0.0, options.time_limit_seconds - passed);
  return own;
}

std::vector<Profile> with_symmetry(std::span<const Profile> profiles) {
  std::vector<Profile> relaxed(profiles.begin(), profiles.end());
  for (Profile& profile : relaxed) profile.symmetry.axes = symmetric_axes(*profile.cost);
  return relaxed;
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
  const std::vector<Profile> relaxed = with_symmetry(profiles);
  const SearchOptions own = within_share(options, stopwatch, share);
  const PlanTask task{.stopwatch = stopwatch,
                      .profiles = relaxed,
                      .options = own,
                      .built = build_plan_problem(relaxed, own, CountedMemory::at_rest)};
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
  std::vector<Profile> chosen = with_symmetry(profiles);
  for (std::size_t p = 0; p < chosen.size(); ++p) chosen[p].symmetry.chosen = &forms[p];
  const SearchOptions own = within_share(options, stopwatch, share);
  // Sums tell what fits where shards do not.
  const CountedMemory counted =
      options.run_bytes ? CountedMemory::at_rest : CountedMemory::over_time;
  PlanTask task{.stopwatch = stopwatch,
                .profiles = chosen,
                .options = own,
                .built = build_plan_problem(chosen, own, counted)};
  Incumbent best;
  improve_at_rest(task, best);
  if (best.choice.empty()) return std::nullopt;
  const assignment::Cost bound = bound_of_operators(task);
  return answer_of(std::move(task), std::move(best), bound);
}

}  // namespace autopar::search
