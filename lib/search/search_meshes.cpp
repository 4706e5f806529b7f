#include "search/search_meshes.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "base/interruption.h"
#include "base/stopwatch.h"
#include "search/coarse_plan.h"
#include "search/first_plans.h"
#include "search/logical_meshes.h"
#include "search/mesh_order.h"
#include "search/operator_bound.h"
#include "search/relaxations.h"
#include "search/search_by_descent.h"
#include "sharding/device_mesh.h"

namespace autopar::search {

namespace {

/// The most time for a bound of all meshes, where some are too large to search to the end.
constexpr double share_of_relaxation = 0.15;
/// The most of the time left for the best plan of its forms.
constexpr double share_of_forms = 0.2;
/// Meshes of up to so many axes are searched until this part of the time has passed. One gets a
/// part of what is left till then, or an equal one of what all need that are left, if that is more.
struct Round {
  int most_axes;
  double end;
  double share_of_one;
};
constexpr Round rounds[] = {{2, 0.3, 0}, {3, 0.6, 0.5}, {4, 0.9, 0.8}};
/// Where meshes are too large to search to the end, one of so many axes is searched before all
/// others, in this part of the time left, and behind it one of up to most_axes_of_descent.
constexpr int axes_of_first = 3;
constexpr double share_of_first = 0.3;
constexpr double share_of_second = 0.9;
/// The first one mostly takes so many times what plan_on_one_axis does. Where its share is less, it
/// has this part of the time left, without a second one: then others are to be tried, too.
constexpr double times_of_one_axis = 6;
constexpr double share_of_first_alone = 0.75;
/// The finest mesh is searched before all others where it has no more axes.
constexpr int most_axes_at_once = 4;
/// What a mesh has for its first search at least, and another search later on, as parts of all
/// time.
constexpr double least_share_at_first = 1.0 / 15;
constexpr double least_share_again = 0.1;
/// The part of the time left for the one that looks best, while others may yet be better.
constexpr double share_of_best = 0.6;
/// Problems on more axes take too much memory for many of them to be kept.
constexpr int most_axes_of_kept_plans = 2;

constexpr double infinity = std::numeric_limits<double>::infinity();

using Profiles = std::vector<Profile>;

const sharding::DeviceMesh& mesh_of(const Profiles& profiles) {
  return profiles.front().cost->mesh();
}

/// The search of one mesh: a plan, or why there is none.
struct Attempt {
  MeshTrial trial;
  std::optional<JointPlan> solved{};
  std::exception_ptr refusal{};
  std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();  ///< as NothingFits has it
};

/// `least_seconds`: no plan on any mesh takes less. `coarser`: a plan to begin with, or null.
Attempt search_on(const Profiles& profiles, const SearchOptions& options, double least_seconds,
                  const JointPlan* coarser) {
  Attempt attempt{.trial = {.mesh = mesh_of(profiles)}};
  MeshTrial& trial = attempt.trial;
  try {
    attempt.solved = search_plan(profiles, options, coarser);
    const double seconds = attempt.solved->predicted.cost_seconds;
    trial.cost_seconds = seconds;
    trial.lower_bound_seconds =
        std::max(attempt.solved->report.lower_bound_seconds, std::min(least_seconds, seconds));
  } catch (const NothingFits& error) {
    trial.lower_bound_seconds = error.is_proven ? infinity : least_seconds;
    trial.refusal = error.what();
    attempt.least_bytes = error.least_bytes;
    attempt.refusal = std::current_exception();
  } catch (const Error& error) {  // a pin that fits other meshes alone, say
    trial.lower_bound_seconds = infinity;
    trial.refusal = error.what();
    attempt.refusal = std::current_exception();
  }
  return attempt;
}

/// That nothing fits is proven where it is proven of all meshes.
[[noreturn]] void refuse(const std::exception_ptr& refusal, std::span<const MeshTrial> trials) {
  const bool is_proven = std::ranges::all_of(
      trials, [](const MeshTrial& trial) { return trial.lower_bound_seconds == infinity; });
  try {
    std::rethrow_exception(refusal);
  } catch (const NothingFits& error) {
    throw NothingFits(error.what(), error.least_bytes, is_proven);
  }
}

/// Both are of the same mesh.
void improve(MeshTrial& known, const MeshTrial& again) {
  known.lower_bound_seconds = std::max(known.lower_bound_seconds, again.lower_bound_seconds);
  if (again.cost_seconds)
    known.cost_seconds = std::min(known.cost_seconds.value_or(infinity), *again.cost_seconds);
  known.refusal = known.cost_seconds ? std::string() : again.refusal;
}

/// The searches of all meshes, one after the other. All lists are by mesh.
struct MeshSearches {
  std::span<const Profiles> meshes;
  const SearchOptions& options;
  const Stopwatch stopwatch{};
  const double least_seconds;    ///< of the operators alone: no plan on any mesh takes less
  std::vector<double> bounds{};  ///< that are known without a search of the mesh
  Relaxation relaxed{};          ///< of the finest mesh, as far as symmetric axes go
  std::vector<MeshTrial> trials{};
  std::vector<std::optional<JointPlan>> plans{meshes.size()};  ///< the best one and those kept
  std::optional<std::size_t> best{};
  std::exception_ptr refusal{};  ///< with the least memory
  std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();
  double glpk_seconds = 0;

  MeshSearches(std::span<const Profiles> on, const SearchOptions& with)
      : meshes(on), options(with), least_seconds(least_seconds_on(mesh(0).num_devices(), on[0])) {
    bounds.resize(meshes.size(), least_seconds);
    for (std::size_t i = 0; i < meshes.size(); ++i)
      trials.push_back({.mesh = mesh(i), .lower_bound_seconds = least_seconds});
  }

  const sharding::DeviceMesh& mesh(std::size_t i) const { return mesh_of(meshes[i]); }
  double best_seconds() const { return best ? plans[*best]->predicted.cost_seconds : infinity; }

  /// The cheapest plan that mesh i can begin with, of a coarser mesh or its own; null if none.
  const JointPlan* start_of(std::size_t i) const {
    const JointPlan* start = nullptr;
    for (const auto& plan : plans) {
      if (!plan || !runs_between(plan->plans.front().mesh, mesh(i))) continue;
      if (!start || plan->predicted.cost_seconds < start->predicted.cost_seconds) start = &*plan;
    }
    return start;
  }

  /// Whether to search mesh i in so many seconds for the first time, or to end with those so far.
  bool is_worth_it(std::size_t i, double seconds) const {
    if (std::ranges::none_of(trials, was_searched)) return true;
    if (best_seconds() <= bounds[i] || (was_interrupted() && best)) return false;
    SearchOptions own = options;
    own.time_limit_seconds = seconds;
    // What would be the plan of a coarser mesh is found on that.
    const bool has_steps =
        options.method == SearchMethod::ilp && mesh(i).num_axes() <= most_axes_of_descent;
    return has_steps || !is_too_large_to_build(meshes[i], own);
  }

  double seconds_left(double share) const {
    return std::max(0.0, share * options.time_limit_seconds - stopwatch.seconds());
  }

  const Profiles& finest() const {
    return *std::ranges::max_element(
        meshes, {}, [](const Profiles& profiles) { return mesh_of(profiles).num_axes(); });
  }

  /// Where meshes are too large to search to the end, and the time limit may be short for them, a
  /// plan is there at once.
  void start_quickly() {
    if (options.method != SearchMethod::ilp || !is_too_large_to_build(finest(), options)) return;
    auto quick = plan_on_one_axis(meshes.front(), options);
    if (quick) keep(0, *std::move(quick));
  }

  /// Whether the bound of the finest mesh is one for all that it refines.
  bool finest_bounds_all() const { return has_like_links(finest().front().cost->device()); }

  /// No plan takes less on the finest mesh, nor on any that it refines.
  void bound_all(double seconds) {
    for (std::size_t i = 0; i < meshes.size(); ++i) {
      if (!runs_between(mesh(i), mesh_of(finest()))) continue;
      bounds[i] = std::max(bounds[i], seconds);
      trials[i].lower_bound_seconds = std::max(trials[i].lower_bound_seconds, seconds);
    }
  }

  void bound_by_relaxation() {
    if (options.method != SearchMethod::ilp && !options.bound) return;
    if (!finest_bounds_all() || !has_symmetry(finest(), options) ||
        mesh_of(finest()).num_axes() > most_axes_of_relaxation ||
        !is_too_large_to_build(finest(), options))
      return;
    relaxed = relax_symmetry(stopwatch, finest(), options, share_of_relaxation);
    bound_all(relaxed.lower_bound_seconds);
  }

  /// The finest mesh begins with the best plan of the relaxation's forms where no coarser one has a
  /// cheaper plan.
  void start_with_forms() {
    if (relaxed.forms.empty() || mesh_of(finest()).num_axes() > most_axes_of_descent) return;
    auto start = best_of_forms(stopwatch, finest(), options, share_of_forms, relaxed.forms);
    if (start) keep(static_cast<std::size_t>(&finest() - meshes.data()), *std::move(start));
  }

  /// Searches the finest mesh at once where the best plan mostly is one of its relaxation's forms.
  /// Whether it did.
  bool search_finest() {
    if (!best || mesh_of(finest()).num_axes() > most_axes_at_once || !finest_bounds_all() ||
        !has_symmetry(finest(), options))
      return false;
    const auto i = static_cast<std::size_t>(&finest() - meshes.data());
    search(i, share_of_second * seconds_left(1));
    if (plans[i] && plans[i]->report.bound_is_searched) bound_all(trials[i].lower_bound_seconds);
    return true;
  }

  /// The mesh of so many axes that comes first.
  void search_one_of(int axes, double share) {
    const auto next = next_new_mesh(trials, {.fewest = axes, .most = axes});
    if (next && !was_interrupted()) search(*next, share * seconds_left(1));
  }

  /// A plan of a coarser mesh is one of any that refines it, so that the second one matters most.
  void climb() {
    if (!best && relaxed.lower_bound_seconds == 0) return;
    const int finest_axes = mesh_of(finest()).num_axes();
    const double seconds_of_one_axis = best ? plans[*best]->report.search_seconds : 0;
    const bool has_second =
        share_of_first * seconds_left(1) >= times_of_one_axis * seconds_of_one_axis;
    const int last = std::min(has_second ? most_axes_of_descent : axes_of_first, finest_axes);
    if (last > axes_of_first) search_one_of(axes_of_first, share_of_first);
    if (last == finest_axes) start_with_forms();
    search_one_of(last, has_second ? share_of_second : share_of_first_alone);
  }

  /// Searches the meshes that were not, until the round is over.
  void search_new(const Round& round) {
    const double least = least_share_at_first * options.time_limit_seconds;
    auto left = std::ranges::count_if(trials, [&](const MeshTrial& trial) {
      return !was_searched(trial) && trial.mesh.num_axes() <= round.most_axes;
    });
    const auto is_over = [&] {  // where none has a plan yet, the others have all of the time
      return seconds_left(best ? round.end : 1) <= least &&
             std::ranges::any_of(trials, was_searched);
    };
    for (; left > 0 && !is_over(); --left) {
      // What one mesh does not need is for those behind it.
      const double share = std::max(round.share_of_one, 1 / static_cast<double>(left));
      const double seconds = std::max(share * seconds_left(round.end), least);
      const auto next = next_new_mesh(trials, {.most = round.most_axes});
      if (!next || !is_worth_it(*next, seconds)) return;
      search(*next, seconds);
    }
  }

  /// Searches those that look best once more, until this part of the time is over.
  void search_again(double share) {
    std::vector<bool> is_again(meshes.size(), false);
    while (seconds_left(share) > least_share_again * options.time_limit_seconds &&
           !was_interrupted()) {
      const auto next = next_mesh_again(trials, best_seconds(), is_again);
      if (!next) return;
      is_again[*next] = true;
      search(*next, share_of_best * seconds_left(share));
    }
  }

  void search(std::size_t i, double seconds) {
    SearchOptions own = options;
    own.time_limit_seconds = seconds;
    own.warns = options.warns && std::ranges::none_of(trials, was_searched);
    Attempt attempt = search_on(meshes[i], own, bounds[i], start_of(i));
    improve(trials[i], attempt.trial);
    if (attempt.refusal && (!refusal || attempt.least_bytes < least_bytes))
      refusal = attempt.refusal;
    least_bytes = std::min(least_bytes, attempt.least_bytes);
    if (attempt.solved) keep(i, std::move(*attempt.solved));
  }

  void keep(std::size_t i, JointPlan solved) {
    glpk_seconds += solved.report.glpk_seconds;
    const double seconds = solved.predicted.cost_seconds;
    const bool is_best = !best || seconds < plans[*best]->predicted.cost_seconds;
    if (is_best && best && mesh(*best).num_axes() > most_axes_of_kept_plans) plans[*best].reset();
    if (is_best) best = i;
    const bool is_kept = is_best || mesh(i).num_axes() <= most_axes_of_kept_plans;
    if (is_kept && (!plans[i] || seconds < plans[i]->predicted.cost_seconds))
      plans[i] = std::move(solved);
  }
};

/// The one mesh that was asked for.
JointPlan search_only(const Profiles& profiles, const SearchOptions& options) {
  JointPlan solved = search_plan(profiles, options);
  const sharding::DeviceMesh& found = solved.plans.front().mesh;
  if (options.warns && found != mesh_of(profiles))
    spdlog::warn("mesh {} takes too long to search: the plan is one of {}",
                 to_string(mesh_of(profiles)), to_string(found));
  return solved;
}

}  // namespace

SolvedPlan search_meshes(const graph::Graph& graph, std::span<const cost::CostModel> meshes,
                         const SearchOptions& options) {
  const graph::StageGraph stage = graph::whole_stage(graph);
  std::vector<Profiles> profiles;
  for (const cost::CostModel& mesh : meshes) profiles.push_back({{.stage = &stage, .cost = &mesh}});
  return only_plan(search_meshes(profiles, options));
}

JointPlan search_meshes(std::span<const Profiles> meshes, const SearchOptions& options) {
  require(!meshes.empty(), "a search has a mesh");
  if (meshes.size() == 1) return search_only(meshes.front(), options);
  const InterruptionGuard guard{SIGINT};  // Ctrl-C: the best mesh so far will do
  MeshSearches searches(meshes, options);
  searches.start_quickly();
  if (!searches.search_finest()) {
    searches.bound_by_relaxation();
    searches.climb();
  }
  for (const Round& round : rounds) searches.search_new(round);
  if (searches.best && options.method == SearchMethod::ilp) searches.search_again(1);
  searches.search_new({static_cast<int>(sharding::DeviceMesh::max_axes), 1, 0});
  if (!searches.best) refuse(searches.refusal, searches.trials);
  MeshTrial& of_best = searches.trials[*searches.best];
  of_best.cost_seconds = searches.best_seconds();
  of_best.refusal.clear();
  const double bound =
      std::ranges::min(searches.trials, {}, &MeshTrial::lower_bound_seconds).lower_bound_seconds;
  JointPlan& best = *searches.plans[*searches.best];
  const double cost_seconds = best.predicted.cost_seconds;
  SearchReport& report = best.report;
  // Costs are rounded to picoseconds, which bounds by operators are not.
  report.lower_bound_seconds = std::min(bound, cost_seconds);
  report.proven_optimal = bound >= cost_seconds;
  report.bound_is_searched = bound > searches.least_seconds;
  report.search_seconds = searches.stopwatch.seconds();
  report.glpk_seconds = searches.glpk_seconds;
  report.meshes = std::move(searches.trials);
  return std::move(best);
}

}  // namespace autopar::search
