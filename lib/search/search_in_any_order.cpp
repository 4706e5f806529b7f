#include "search/search_in_any_order.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "search/descent_steps.h"
#include "search/operator_bound.h"
#include "search/search_by_symmetry.h"

namespace autopar::search {

namespace {

constexpr int most_axes = 3;
/// The problem of fewer operators is soon solved, and then its plan mostly proven.
constexpr std::size_t least_operators = 1000;
/// In less time the problem of all strategies is not solved well enough for steps to begin with.
constexpr double least_seconds = 10;
/// The parts of the time left for the relaxation, and for the best plan of its forms.
constexpr double share_of_relaxation = 0.3;
constexpr double share_of_forms = 0.4;
/// Where that is no further above the bound, as a part of it, the steps begin with it.
constexpr double small_gap = 0.1;
/// The parts of the time left for the problem of all strategies, on two axes and on three.
constexpr double share_of_whole_on_two = 0.75;
constexpr double share_of_whole_on_three = 0.5;
/// The part of the time left for the steps, where a relaxation is still to follow.
constexpr double share_of_steps = 0.6;

/// What steps begin with, and what is known by then.
struct Beginning {
  std::optional<JointPlan> plan{};
  double bound_seconds = 0;            ///< of the relaxation, for axes in any order; 0: none
  double ascending_bound_seconds = 0;  ///< no plan whose axes ascend takes less; 0: not known
};

bool is_on_three_axes(std::span<const Profile> profiles) {
  return profiles.front().cost->mesh().num_axes() == most_axes;
}

/// The best plan of the relaxation's forms, on three axes some of which are symmetric.
Beginning begin_with_forms(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                           const SearchOptions& options) {
  if (!is_on_three_axes(profiles) || !has_symmetry(profiles, options)) return {};
  const Relaxation relaxed = relax_symmetry(stopwatch, profiles, options, share_of_relaxation);
  Beginning found{.bound_seconds = relaxed.lower_bound_seconds};
  if (!relaxed.forms.empty())
    found.plan = best_of_forms(stopwatch, profiles, options, share_of_forms, relaxed.forms);
  return found;
}

bool is_near_bound(const Beginning& found) {
  return found.plan && found.plan->predicted.cost_seconds <= (1 + small_gap) * found.bound_seconds;
}

/// Throws NothingFits where that is proven; no plan where none is found in its part of the time.
void consider_whole_problem(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                            const SearchOptions& options, const JointPlan* coarser,
                            Beginning& found) {
  const double share = is_on_three_axes(profiles) ? share_of_whole_on_three : share_of_whole_on_two;
  try {
    JointPlan whole =
        search_whole_problem(stopwatch, profiles, within_share(options, stopwatch, share), coarser);
    found.ascending_bound_seconds = whole.report.lower_bound_seconds;
    if (!found.plan || whole.predicted.cost_seconds < found.plan->predicted.cost_seconds)
      found.plan = std::move(whole);
  } catch (const NothingFits& error) {
    if (error.is_proven && !found.plan) throw;
  }
}

/// The plan's report with the best bound that holds for it.
JointPlan with_bound(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                     const SearchOptions& options, const Beginning& known, JointPlan plan) {
  const double cost = plan.predicted.cost_seconds;
  double bound = known.bound_seconds;
  if (known.ascending_bound_seconds <= cost) bound = std::max(bound, known.ascending_bound_seconds);
  if (bound == 0) bound = relax_symmetry(stopwatch, profiles, options, 1).lower_bound_seconds;
  SearchReport& report = plan.report;
  report.bound_is_searched = bound > 0;
  bound = std::max(bound, least_seconds_on(plan.plans.front().mesh.num_devices(), profiles));
  report.lower_bound_seconds = std::min(bound, cost);
  report.proven_optimal = bound >= cost;
  report.search_seconds = stopwatch.seconds();
  return plan;
}

}  // namespace

bool is_worth_any_order(std::span<const Profile> profiles, const SearchOptions& options) {
  const Profile& first = profiles.front();
  const int num_axes = first.cost->mesh().num_axes();
  return options.method == SearchMethod::ilp && options.presolve && options.pins.empty() &&
         options.time_limit_seconds >= least_seconds && profiles.size() == 1 &&
         first.near.plan == nullptr && first.stage->received.empty() && num_axes > 1 &&
         num_axes <= most_axes && first.stage->graph.nodes.size() >= least_operators;
}

JointPlan search_in_any_order(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                              const SearchOptions& options, const JointPlan* coarser) {
  Beginning found = begin_with_forms(stopwatch, profiles, options);
  if (!is_near_bound(found)) consider_whole_problem(stopwatch, profiles, options, coarser, found);
  if (!found.plan) return search_whole_problem(stopwatch, profiles, options, coarser);
  const double share = found.bound_seconds > 0 ? 1 : share_of_steps;
  JointPlan best =
      descend(stopwatch, profiles, within_share(options, stopwatch, share), *std::move(found.plan));
  return with_bound(stopwatch, profiles, options, found, std::move(best));
}

}  // namespace autopar::search
