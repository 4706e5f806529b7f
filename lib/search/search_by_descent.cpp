#include "search/search_by_descent.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "search/coarse_plan.h"
#include "search/descent_steps.h"
#include "search/first_plans.h"
#include "search/operator_bound.h"
#include "search/operator_strategies.h"
#include "search/plan_task.h"
#include "search/relaxations.h"
#include "search/search_at_rest.h"

namespace autopar::search {

namespace {

/// On fewer axes a problem is soon built.
constexpr int fewest_axes = 3;
/// Seconds to build a problem, by pair of strategies of two neighbours, seen on an ordinary core.
constexpr double build_seconds_a_pair = 3e-6;
/// The same to go through it once, by pair of all, of many layers too.
constexpr double pass_seconds_a_pair = 8e-7;
/// Beyond, pricing all strategies to count them would itself take long.
constexpr int most_axes_to_count = 3;
/// Another axis has been seen to multiply the pairs by so much.
constexpr double growth_an_axis = 20;
/// The parts of the time that this may take at most where a quick method is to do it, which takes
/// little more, and where an exact one is to follow descent.
constexpr double most_of_quick = 0.1;
constexpr double most_of_exact = 0.5;
/// The part of the time for a plan on a coarser mesh, where steps follow, and the seconds that it
/// has at least, if there are as many.
constexpr double share_of_coarser = 0.5;
constexpr double least_seconds_of_coarser = 1;
/// The parts of the time left for the relaxation without symmetric axes, and for the best plan of
/// its forms.
constexpr double share_of_relaxation = 0.3;
constexpr double share_of_forms = 0.4;
/// On so many axes the problem of all strategies mostly is a chain of layers, which is soon solved:
/// that takes the place of forms and coarser plans. The part of the time left for it.
constexpr int most_axes_of_whole = 3;
constexpr double share_of_whole = 0.92;
/// The parts of the time left for that relaxation, and the best plan of its forms, before it.
constexpr double share_of_forms_before_whole = 0.15;
/// Where the forms' best plan is further above the bound, as a part of it, a coarser mesh may have
/// a cheaper one to begin with.
constexpr double small_gap_of_forms = 0.15;

const sharding::DeviceMesh& mesh_of(std::span<const Profile> profiles) {
  return profiles.front().cost->mesh();
}

sharding::DeviceMesh next_coarser(const sharding::DeviceMesh& fine,
                                  const cost::DeviceModel& device) {
  return coarse_mesh(fine, with_one_axis_less(cost::CostModel(device, fine)));
}

/// Whether there is time for steps of descent on the mesh itself.
bool has_steps(std::span<const Profile> profiles) {
  return mesh_of(profiles).num_axes() <= most_axes_of_descent;
}

/// On the mesh with one axis less.
ProfilesOn coarser_of(std::span<const Profile> fine) {
  return {next_coarser(mesh_of(fine), fine.front().cost->device()), fine};
}

/// Pairs of strategies of operators that are neighbours.
struct StrategyPairs {
  double all = 0;
  double different = 0;  ///< alike ones once
};

StrategyPairs pairs_of_strategies(const Profile& profile) {
  const graph::Graph& graph = profile.stage->graph;
  const std::vector<Pin> no_pins;
  const Pins pins(no_pins, graph);
  StrategyTable table(graph, *profile.cost, pins);
  const std::vector<graph::NodeId> producers = graph::producers(graph);
  StrategyPairs pairs;
  std::set<std::pair<const void*, const void*>> known;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const auto reader = table.of(static_cast<graph::NodeId>(id));
    for (const graph::ValueId input : graph.nodes[id].inputs) {
      if (input == graph::no_value || producers[input] == graph::no_node) continue;
      const auto producer = table.of(producers[input]);
      const auto count = static_cast<double>(producer->choices.size() * reader->choices.size());
      pairs.all += count;
      if (known.emplace(producer.get(), reader.get()).second) pairs.different += count;
    }
  }
  return pairs;
}

/// What a method takes at least: the problem of all strategies is built and gone through once.
double seconds_of_problem(std::span<const Profile> profiles) {
  if (mesh_of(profiles).num_axes() > most_axes_to_count)
    return growth_an_axis * seconds_of_problem(coarser_of(profiles).profiles);
  const Stopwatch passed;
  const ThreadStopwatch on_core;
  double seconds = 0;
  for (const Profile& profile : profiles) {
    const StrategyPairs pairs = pairs_of_strategies(profile);
    seconds += build_seconds_a_pair * pairs.different + pass_seconds_a_pair * pairs.all;
  }
  const double slowdown = passed.seconds() / std::max(least_timed, on_core.seconds());
  return std::max(1.0, slowdown) * seconds;
}

/// The plan of a coarser mesh that is small enough to be searched, or near whose plans there are
/// steps. `known`: a plan on one axis, or null.
JointPlan plan_on_coarser(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                          const SearchOptions& options, const JointPlan* known) {
  const cost::DeviceModel& device = profiles.front().cost->device();
  sharding::DeviceMesh mesh = next_coarser(mesh_of(profiles), device);
  while (mesh.num_axes() > most_axes_of_descent) mesh = next_coarser(mesh, device);
  SearchOptions of_coarser = options;
  of_coarser.warns = false;
  const double left = std::max(0.0, options.time_limit_seconds - stopwatch.seconds());
  of_coarser.time_limit_seconds =
      options.method == SearchMethod::ilp && has_steps(profiles)
          ? std::max(share_of_coarser * left, std::min(least_seconds_of_coarser, left))
          : left;
  // On fewer axes the search finds a better start than that by itself.
  if (mesh.num_axes() < fewest_axes) known = nullptr;
  return search_plan(ProfilesOn(mesh, profiles).profiles, of_coarser, known);
}

/// The cheaper of the plan and what is found on a coarser mesh, if there is time. `known`: as
/// above.
JointPlan or_coarser(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                     const SearchOptions& options, const JointPlan* known, JointPlan plan) {
  // A search may end a tenth of the limit and a second behind it.
  const double seconds_to_end = 1.1 * options.time_limit_seconds + 1 - stopwatch.seconds();
  if (known != nullptr && seconds_to_end < least_times_of_one_axis * known->report.search_seconds)
    return plan;
  try {
    JointPlan coarse = plan_on_coarser(stopwatch, profiles, options, known);
    if (coarse.predicted.cost_seconds < plan.predicted.cost_seconds) return coarse;
  } catch (const NothingFits&) {
  }
  return plan;
}

/// What descent begins with.
struct Beginning {
  JointPlan plan;                  ///< of the mesh or a coarser one
  double lower_bound_seconds = 0;  ///< of the relaxation; 0 without one
};

bool is_small(std::span<const Profile> profiles) {
  std::size_t operators = 0;
  for (const Profile& profile : profiles) operators += profile.stage->graph.nodes.size();
  return operators < least_nodes_of_large;
}

bool can_relax(std::span<const Profile> profiles, const SearchOptions& options) {
  return has_symmetry(profiles, options) && mesh_of(profiles).num_axes() <= most_axes_of_relaxation;
}

Relaxation relax_if_possible(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                             const SearchOptions& options) {
  if (!can_relax(profiles, options)) return {};
  return relax_symmetry(stopwatch, profiles, options, share_of_relaxation);
}

/// Without predictions of what shards need, which take seconds for a large model.
SearchOptions at_rest(SearchOptions options) {
  options.run_bytes = nullptr;
  return options;
}

/// What a quick method finds, which takes no steps.
Beginning find_quickly(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                       const SearchOptions& options) {
  SearchOptions without_bound = options;  // that of a coarser mesh says nothing of this one
  without_bound.bound = false;
  Beginning found{plan_on_coarser(stopwatch, profiles, without_bound, nullptr)};
  if (options.bound) {
    const Relaxation relaxed =
        mesh_of(profiles).num_axes() <= most_axes_of_whole
            ? relax_copies(stopwatch, profiles, at_rest(options), share_of_whole, nullptr)
            : relax_if_possible(stopwatch, profiles, options);
    found.lower_bound_seconds = relaxed.lower_bound_seconds;
  }
  return found;
}

bool is_near_bound(const JointPlan& plan, double bound_seconds) {
  return plan.predicted.cost_seconds <= (1 + small_gap) * bound_seconds;
}

/// The plan if it is cheaper, or all there is.
void improve(std::optional<JointPlan>& best, std::optional<JointPlan> plan) {
  if (plan && (!best || plan->predicted.cost_seconds < best->predicted.cost_seconds))
    best = std::move(plan);
}

/// What the problem of all strategies comes to.
struct Whole {
  Relaxation relaxed;
  std::optional<JointPlan> plan;  ///< of its forms; none where their shards do not fit
};

/// Solves the relaxation under the options `relaxing`, and prices its forms under `options`.
/// `start`: a plan to begin with, or null.
Whole find_whole(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                 const SearchOptions& options, const SearchOptions& relaxing,
                 const JointPlan* start) {
  Whole found{relax_copies(stopwatch, profiles, relaxing, share_of_whole, start), {}};
  if (!found.relaxed.forms.empty())
    found.plan = plan_with(stopwatch, profiles, options, found.relaxed.forms);
  return found;
}

/// `known`: a plan of the mesh or a coarser one, or none.
Beginning begin_with_whole(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                           const SearchOptions& options, std::optional<JointPlan> known) {
  std::optional<JointPlan> best = std::move(known);
  double bound = 0;
  // Forms of a small model are soon found, and mostly the answer.
  if (can_relax(profiles, options) && is_small(profiles)) {
    const Relaxation relaxed =
        relax_symmetry(stopwatch, profiles, options, share_of_forms_before_whole);
    bound = relaxed.lower_bound_seconds;
    if (!relaxed.forms.empty())
      improve(best, best_of_forms(stopwatch, profiles, options, share_of_forms_before_whole,
                                  relaxed.forms));
    if (best && is_near_bound(*best, bound)) return {*std::move(best), bound};
  }
  const JointPlan* const start = best ? &*best : nullptr;
  const bool expects_fit =
      options.run_bytes && start != nullptr && is_roomy(*start, profiles, options);
  Whole whole =
      find_whole(stopwatch, profiles, options, expects_fit ? at_rest(options) : options, start);
  bound = std::max(bound, whole.relaxed.lower_bound_seconds);
  if (expects_fit && !whole.plan && !whole.relaxed.forms.empty())
    whole = find_whole(stopwatch, profiles, options, options, start);
  // Where both plans cost the same, this mesh's is kept: it is told in its own axes.
  if (whole.plan && (!best || whole.plan->predicted.cost_seconds <= best->predicted.cost_seconds))
    best = std::move(whole.plan);
  if (!best) best = plan_on_coarser(stopwatch, profiles, options, nullptr);
  return {*std::move(best), std::max(bound, whole.relaxed.lower_bound_seconds)};
}

/// `known`: a plan on one axis, or none.
Beginning begin_with_forms(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                           const SearchOptions& options, std::optional<JointPlan> known) {
  const JointPlan* const on_one_axis = known ? &*known : nullptr;
  const Relaxation relaxed = relax_if_possible(stopwatch, profiles, options);
  std::optional<JointPlan> best;
  if (has_steps(profiles) && !relaxed.forms.empty())
    best = best_of_forms(stopwatch, profiles, options, share_of_forms, relaxed.forms);
  const bool are_near_bound = best && best->predicted.cost_seconds <=
                                          (1 + small_gap_of_forms) * relaxed.lower_bound_seconds;
  improve(best, known);
  if (!best)
    best = plan_on_coarser(stopwatch, profiles, options, nullptr);
  else if (!are_near_bound)
    best = or_coarser(stopwatch, profiles, options, on_one_axis, *std::move(best));
  return {*std::move(best), relaxed.lower_bound_seconds};
}

/// `refined`: a plan of the mesh or a coarser one, of two axes or more.
Beginning begin_with(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                     const SearchOptions& options, JointPlan refined) {
  if (is_too_large_to_build(profiles, options)) return {std::move(refined)};
  const Relaxation relaxed = relax_if_possible(stopwatch, profiles, options);
  std::optional<JointPlan> best = std::move(refined);
  if (has_steps(profiles) && !relaxed.forms.empty())
    improve(best, best_of_forms(stopwatch, profiles, options, share_of_forms, relaxed.forms));
  return {*std::move(best), relaxed.lower_bound_seconds};
}

/// `coarser`: a plan of the mesh or a coarser one, or null.
Beginning begin(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                const SearchOptions& options, const JointPlan* coarser) {
  const bool is_known =
      coarser != nullptr && runs_between(coarser->plans.front().mesh, mesh_of(profiles));
  const bool is_whole = mesh_of(profiles).num_axes() <= most_axes_of_whole;
  if (is_known && !is_whole && coarser->plans.front().mesh.num_axes() > 1)
    return begin_with(stopwatch, profiles, options, *coarser);
  std::optional<JointPlan> known =
      is_known ? std::optional(*coarser) : plan_on_one_axis(profiles, options);
  if (is_whole) return begin_with_whole(stopwatch, profiles, options, std::move(known));
  return begin_with_forms(stopwatch, profiles, options, std::move(known));
}

}  // namespace

bool can_descend(std::span<const Profile> profiles, const SearchOptions& options) {
  return mesh_of(profiles).num_axes() >= fewest_axes && options.pins.empty() &&
         std::ranges::all_of(profiles, [](const Profile& profile) {
           return profile.near.plan == nullptr && profile.stage->received.empty();
         });
}

bool is_too_large_to_build(std::span<const Profile> profiles, const SearchOptions& options) {
  const double most = options.method == SearchMethod::ilp ? most_of_exact : most_of_quick;
  return can_descend(profiles, options) &&
         seconds_of_problem(profiles) > most * options.time_limit_seconds;
}

JointPlan search_by_descent(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                            const SearchOptions& options, const JointPlan* coarser) {
  const sharding::DeviceMesh& mesh = mesh_of(profiles);
  if (options.warns)
    for (const Profile& profile : profiles) warn_of_missing_rules(profile.stage->graph);
  const bool is_exact = options.method == SearchMethod::ilp;
  auto [best, relaxed_seconds] = is_exact ? begin(stopwatch, profiles, options, coarser)
                                          : find_quickly(stopwatch, profiles, options);
  const bool is_answer = best.plans.front().mesh == mesh && is_near_bound(best, relaxed_seconds);
  if (is_exact && has_steps(profiles) && !is_answer)
    best = descend(stopwatch, profiles, options, std::move(best));
  const double bound = std::max(relaxed_seconds, least_seconds_on(mesh.num_devices(), profiles));
  best.report.lower_bound_seconds = std::min(bound, best.predicted.cost_seconds);
  best.report.proven_optimal = bound >= best.predicted.cost_seconds;
  best.report.bound_is_searched = relaxed_seconds > 0;
  best.report.search_seconds = stopwatch.seconds();
  return std::move(best);
}

}  // namespace autopar::search
