#include "search/descent_steps.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/in_parallel.h"
#include "base/interruption.h"
#include "search/coarse_plan.h"
#include "search/first_plans.h"
#include "search/plan_task.h"
#include "search/search_at_rest.h"

namespace autopar::search {

namespace {

/// The part of the time left that a step may take.
constexpr double share_of_step = 0.5;
/// The part of all time without which no step is begun, where none has shown that it takes less.
constexpr double least_share_of_step = 0.1;
/// A step that counts all memory predicts what a plan's shards need. Multiples of what that takes:
/// the time in which a step ends, and that in which it finds something.
constexpr double predictions_to_end = 2.5;
constexpr double predictions_to_find = 6;
/// Where steps do not predict shards, so many predictions' time is left for those of the last plan.
constexpr double predictions_of_last = 2;
/// A step that saves less, as a part of the cost, was in vain.
constexpr double least_saving = 1e-4;
/// Where all strategies are given, copies alone are to be chosen, which takes less.
constexpr double least_seconds_of_copies = 1;

const sharding::DeviceMesh& mesh_of(std::span<const Profile> profiles) {
  return profiles.front().cost->mesh();
}

std::vector<plan::Plan> refined_on(const sharding::DeviceMesh& mesh, const JointPlan& coarse) {
  const auto runs = runs_between(coarse.plans.front().mesh, mesh);
  require(runs.has_value(), "a coarser mesh joins axes of the finer one");
  std::vector<plan::Plan> plans;
  for (const plan::Plan& plan : coarse.plans) plans.push_back(refined(plan, *runs, mesh));
  return plans;
}

/// The profiles with prices that all steps share.
std::vector<Profile> with_shared_prices(std::span<const Profile> profiles, int threads) {
  std::vector<Profile> result(profiles.begin(), profiles.end());
  for (Profile& profile : result) {
    profile.near.prices = prices_or_own(nullptr, *profile.cost);
    profile.near.prices->set_threads(threads > 0 ? static_cast<std::size_t>(threads) : cores());
  }
  return result;
}

void limit_prices(std::span<const Profile> profiles, std::optional<TimeLimit> limit) {
  for (const Profile& profile : profiles) profile.near.prices->set_limit(limit);
}

using Axes = std::vector<int>;

/// The axes that one step after the other frees. With two of them free, layers mostly are a chain
/// that elimination solves; with any two of more than two, they are not.
std::vector<Axes> axes_of_steps(int num_axes) {
  std::vector<Axes> steps;
  for (int a = 0; a < num_axes; ++a)
    for (int b = a + 1; b < num_axes; ++b) steps.push_back({a, b});
  for (int axis = 0; axis < num_axes; ++axis) steps.push_back({axis});
  return steps;
}

/// The profiles with the strategies that use all axes but the free ones as the plans do.
std::vector<Profile> near(const std::vector<plan::Plan>& plans, const Axes& free,
                          std::span<const Profile> profiles) {
  std::vector<Profile> result(profiles.begin(), profiles.end());
  for (std::size_t p = 0; p < result.size(); ++p) {
    result[p].near.plan = &plans[p];
    result[p].near.free_axes = free;
  }
  return result;
}

/// The best plan that uses all axes but the free ones as `start` does; nullopt where none fits.
using Step = std::function<std::optional<JointPlan>(const JointPlan& start, const Axes& free,
                                                    const SearchOptions& options)>;

std::optional<JointPlan> step_by_all_memory(std::span<const Profile> profiles,
                                            const JointPlan& start, const Axes& free,
                                            const SearchOptions& options) {
  const std::vector<plan::Plan> plans = refined_on(mesh_of(profiles), start);
  try {
    return search_plan(near(plans, free, profiles), options, &start);
  } catch (const NothingFits&) {
    return std::nullopt;
  }
}

/// Where the options have `run_bytes`, its shards fit; else what is at rest does.
std::optional<JointPlan> step_at_rest(std::span<const Profile> profiles, const JointPlan& start,
                                      const Axes& free, const SearchOptions& options) {
  const std::vector<plan::Plan> plans = refined_on(mesh_of(profiles), start);
  const std::vector<Profile> chosen = near(plans, free, profiles);
  PlanTask task{.profiles = chosen,
                .options = options,
                .coarser = &start,
                .built = build_plan_problem(chosen, options, CountedMemory::at_rest)};
  Incumbent best;
  start_from_coarser(task, best);
  const assignment::Solution solution =
      solve_exactly(task, task.built.problem, best, {.share = 1, .patience_seconds = 0});
  if (!solution.choice.empty()) consider(task, solution.choice, best);
  if (best.choice.empty()) return std::nullopt;
  return answer_of(std::move(task), std::move(best), bound_of(solution));
}

/// Nullopt, too, where its problem cannot be built in time.
std::optional<JointPlan> within_time(const Step& step, const JointPlan& start, const Axes& free,
                                     const SearchOptions& options) {
  try {
    return step(start, free, options);
  } catch (const OutOfTime&) {
    return std::nullopt;
  }
}

/// A plan of the same cost does where the one before is of a coarser mesh. Else that one's problem
/// has more strategies for whoever asks what else might have been chosen.
bool replaces(const JointPlan& next, const JointPlan& best) {
  const double saved = best.predicted.cost_seconds - next.predicted.cost_seconds;
  return saved > 0 || (saved == 0 && next.plans.front().mesh != best.plans.front().mesh);
}

/// Improves the plan until no step does, or less than a step's time is left before `end`.
void improve(const Stopwatch& stopwatch, std::span<const Profile> profiles,
             const SearchOptions& options, double end, const Step& step, JointPlan& best) {
  limit_prices(profiles, TimeLimit(stopwatch, end));
  const std::vector<Axes> steps = axes_of_steps(mesh_of(profiles).num_axes());
  SearchOptions of_step = options;
  double least_seconds = least_share_of_step * options.time_limit_seconds;
  std::size_t in_vain = 0;  // steps, one after the other
  for (std::size_t k = 0; in_vain < steps.size(); k = (k + 1) % steps.size()) {
    const double begin = stopwatch.seconds();
    const double seconds_left = end - begin;
    // A step may end a tenth of the limit and a second behind it.
    const double seconds_to_end = seconds_left + 0.1 * options.time_limit_seconds + 1;
    const double prediction = options.run_bytes ? best.report.predict_seconds : 0;
    if (was_interrupted() || seconds_left < least_seconds ||
        seconds_to_end < predictions_to_end * prediction)
      return;
    of_step.time_limit_seconds = std::max(share_of_step * seconds_left,
                                          std::min(seconds_left, predictions_to_find * prediction));
    std::optional<JointPlan> next = within_time(step, best, steps[k], of_step);
    least_seconds = std::min(least_seconds, stopwatch.seconds() - begin);
    const double cost = best.predicted.cost_seconds;
    const bool saves = next && next->predicted.cost_seconds < (1 - least_saving) * cost;
    in_vain = saves ? 1 : in_vain + 1;  // the same step once more would be
    if (next && replaces(*next, best)) best = *std::move(next);
  }
}

/// The steps, and after them the prediction of what the last plan's shards need.
JointPlan descend_at_rest(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                          const SearchOptions& options, JointPlan start) {
  SearchOptions at_rest = options;
  at_rest.run_bytes = nullptr;
  JointPlan best = start;
  const double end =
      options.time_limit_seconds - predictions_of_last * start.report.predict_seconds;
  improve(
      stopwatch, profiles, at_rest, end,
      [&](const JointPlan& from, const Axes& free, const SearchOptions& of_step) {
        return step_at_rest(profiles, from, free, of_step);
      },
      best);
  const bool is_better = best.predicted.cost_seconds < start.predicted.cost_seconds;
  if (!is_better && best.plans.front().mesh == start.plans.front().mesh) return start;
  limit_prices(profiles, std::nullopt);
  auto predicted = step_at_rest(profiles, best, {}, options);
  return predicted ? *std::move(predicted) : std::move(start);
}

}  // namespace

std::optional<JointPlan> plan_with(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                                   const SearchOptions& options,
                                   const std::vector<plan::Plan>& strategies) {
  const std::vector<Profile> chosen = near(strategies, {}, profiles);
  const CountedMemory counted =
      options.run_bytes ? CountedMemory::at_rest : CountedMemory::over_time;
  PlanTask task{.stopwatch = stopwatch,
                .profiles = chosen,
                .options = options,
                .built = build_plan_problem(chosen, options, counted)};
  Incumbent best;
  const assignment::Solution solution = solve_exactly(
      task, task.built.problem, best, {.share = 1, .least_seconds = least_seconds_of_copies});
  if (!solution.choice.empty()) consider(task, solution.choice, best);
  if (best.choice.empty()) return std::nullopt;
  const assignment::Cost bound = bound_of_operators(task);
  return answer_of(std::move(task), std::move(best), bound);
}

JointPlan descend(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                  const SearchOptions& options, JointPlan start) {
  SearchOptions quiet = options;
  quiet.warns = false;
  const std::vector<Profile> priced = with_shared_prices(profiles, options.threads);
  if (options.run_bytes && is_roomy(start, profiles, options))
    return descend_at_rest(stopwatch, priced, quiet, std::move(start));
  improve(
      stopwatch, priced, quiet, options.time_limit_seconds,
      [&](const JointPlan& from, const Axes& free, const SearchOptions& of_step) {
        return step_by_all_memory(priced, from, free, of_step);
      },
      start);
  return start;
}

}  // namespace autopar::search
