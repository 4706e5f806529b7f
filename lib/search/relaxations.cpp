#include "search/relaxations.h"

#include <algorithm>
#include <utility>

#include "search/first_plans.h"
#include "search/plan_task.h"
#include "search/search_at_rest.h"

namespace autopar::search {

namespace {

/// The part of its time in which a problem is to be built. One that takes longer, as of tensors of
/// many dimensions on many axes, would leave none to solve it, and be too large for memory, too.
constexpr double share_of_building = 0.8;

/// Until when a problem is to be built; `own` are the options of what is to be done with it.
TimeLimit limit_of_building(const Stopwatch& stopwatch, const SearchOptions& own) {
  const double passed = stopwatch.seconds();
  return TimeLimit(stopwatch, passed + share_of_building * (own.time_limit_seconds - passed));
}

std::vector<Profile> with_symmetry(std::span<const Profile> profiles, const TimeLimit& limit) {
  std::vector<Profile> relaxed(profiles.begin(), profiles.end());
  for (Profile& profile : relaxed)
    profile.symmetry = {.axes = profile.cost->symmetric_axes(), .limit = limit};
  return relaxed;
}

std::vector<Profile> with_relaxed_copies(std::span<const Profile> profiles,
                                         const TimeLimit& limit) {
  std::vector<Profile> relaxed(profiles.begin(), profiles.end());
  for (Profile& profile : relaxed) {
    profile.symmetry.limit = limit;
    profile.copies = Copies::relaxed;
  }
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

/// By profile.
std::vector<plan::Plan> forms_of(const PlanTask& task, const std::vector<int>& choice) {
  std::vector<plan::Plan> forms;
  for (std::size_t p = 0; p < task.profiles.size(); ++p)
    forms.push_back(decode(task.built, choice, *task.profiles[p].cost, p));
  return forms;
}

}  // namespace

bool has_symmetry(std::span<const Profile> profiles, const SearchOptions& options) {
  return options.pins.empty() && std::ranges::all_of(profiles, [](const Profile& profile) {
           return profile.stage->received.empty() && !profile.cost->symmetric_axes().empty();
         });
}

Relaxation relax_symmetry(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                          const SearchOptions& options, double share) {
  const SearchOptions own = within_share(options, stopwatch, share);
  const std::vector<Profile> relaxed = with_symmetry(profiles, limit_of_building(stopwatch, own));
  auto built = build_in_time(relaxed, own, CountedMemory::at_rest);
  if (!built) return {};
  const PlanTask task{
      .stopwatch = stopwatch, .profiles = relaxed, .options = own, .built = *std::move(built)};
  Incumbent none;
  const assignment::Solution solution = solve_exactly(task, task.built.problem, none, {.share = 1});
  Relaxation found{.lower_bound_seconds = in_seconds(bound_of(solution))};
  if (solution.choice.empty()) return found;
  found.forms = forms_of(task, solution.choice);
  return found;
}

std::optional<JointPlan> best_of_forms(const Stopwatch& stopwatch,
                                       std::span<const Profile> profiles,
                                       const SearchOptions& options, double share,
                                       const std::vector<plan::Plan>& forms) {
  const SearchOptions own = within_share(options, stopwatch, share);
  std::vector<Profile> chosen = with_symmetry(profiles, limit_of_building(stopwatch, own));
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

Relaxation relax_copies(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                        const SearchOptions& options, double share, const JointPlan* start) {
  const SearchOptions own = within_share(options, stopwatch, share);
  const std::vector<Profile> relaxed =
      with_relaxed_copies(profiles, limit_of_building(stopwatch, own));
  auto built = build_in_time(relaxed, own, CountedMemory::at_rest);
  if (!built) return {};
  const PlanTask task{.stopwatch = stopwatch,
                      .profiles = relaxed,
                      .options = own,
                      .coarser = start,
                      .built = *std::move(built)};
  Incumbent best;
  if (start != nullptr) start_from_coarser(task, best);
  Relaxation found{.lower_bound_seconds = in_seconds(improve_at_rest(task, best).bound)};
  if (!best.choice.empty()) found.forms = forms_of(task, best.choice);
  return found;
}

}  // namespace autopar::search
