#include "search/search_meshes.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/interruption.h"
#include "base/stopwatch.h"
#include "search/coarse_plan.h"
#include "search/operator_bound.h"

namespace autopar::search {

namespace {

/// A problem on one mesh axis more has been seen to take so many times as long to build, at most,
/// by the axes before: its operators' strategies multiply, and tables of two with their square.
constexpr double growths_an_axis[] = {5, 10, 30};
/// The part of a mesh's time that its problem may take to build: else nothing is found in the rest.
constexpr double most_to_build = 0.5;

/// The part of the time in which each mesh is searched for the first time. The rest goes to those
/// that look best then.
constexpr double share_of_first_round = 0.6;
/// What a mesh has in the first round at least, and another search later on, as parts of all time.
constexpr double least_share_at_first = 1.0 / 15;
constexpr double least_share_again = 0.1;
/// The part of the time left for the one that looks best, while others may yet be better.
constexpr double share_of_best = 0.6;
/// A mesh whose plan is proven to this part is not searched again.
constexpr double small_gap = 1e-3;
/// Problems on more axes take too much memory for many of them to be kept.
constexpr int most_axes_of_kept_plans = 2;

/// Each axis more multiplies a stage's strategies, and a third has not been seen to pay.
constexpr int most_axes_of_stage = 2;

/// Beyond so many, whole nodes come in powers of two and half as many more.
constexpr int nodes_one_by_one = 16;

constexpr double infinity = std::numeric_limits<double>::infinity();

using Profiles = std::vector<Profile>;

const sharding::DeviceMesh& mesh_of(const Profiles& profiles) {
  return profiles.front().cost->mesh();
}

/// Seconds that a problem took to build, at most, by number of axes.
using LongestBuilds = std::map<int, double>;

/// Judged by meshes of as many or fewer axes.
double expected_seconds(const LongestBuilds& longest, int axes) {
  const auto more = longest.upper_bound(axes);
  if (more == longest.begin()) return 0;
  auto [known_axes, seconds] = *std::prev(more);
  for (int from = known_axes; from < axes; ++from)
    seconds *= growths_an_axis[std::min<int>(from, std::ssize(growths_an_axis)) - 1];
  return seconds;
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
  const double least_seconds;  ///< no plan on any mesh takes less
  std::vector<MeshTrial> trials{};
  std::vector<bool> is_searched = std::vector<bool>(meshes.size(), false);
  std::vector<std::optional<JointPlan>> plans{meshes.size()};  ///< the best one and those kept
  std::optional<std::size_t> best{};
  LongestBuilds longest{};
  std::exception_ptr refusal{};  ///< with the least memory
  std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();
  double glpk_seconds = 0;

  MeshSearches(std::span<const Profiles> on, const SearchOptions& with)
      : meshes(on), options(with), least_seconds(least_seconds_on(mesh(0).num_devices(), on[0])) {
    for (std::size_t i = 0; i < meshes.size(); ++i)
      trials.push_back({.mesh = mesh(i), .lower_bound_seconds = least_seconds});
  }

  const sharding::DeviceMesh& mesh(std::size_t i) const { return mesh_of(meshes[i]); }
  double best_seconds() const { return best ? *trials[*best].cost_seconds : infinity; }

  /// The cheapest plan that mesh i can begin with, of a coarser mesh or its own; null if none.
  const JointPlan* start_of(std::size_t i) const {
    const JointPlan* start = nullptr;
    for (const auto& plan : plans) {
      if (!plan || !runs_between(plan->plans.front().mesh, mesh(i))) continue;
      if (!start || plan->predicted.cost_seconds < start->predicted.cost_seconds) start = &*plan;
    }
    return start;
  }

  /// What mesh i need not exceed: the least cost on it and on those that it refines.
  double known_seconds(std::size_t i) const {
    double least = infinity;
    for (const MeshTrial& trial : trials)
      if (trial.cost_seconds && runs_between(trial.mesh, mesh(i)))
        least = std::min(least, *trial.cost_seconds);
    return least;
  }

  /// The next mesh to search for the first time: of those with fewest axes, one that refines the
  /// best mesh, and of these the most even one. None where their problems would take too long.
  std::optional<std::size_t> next_new(double seconds) const {
    const auto rank = [&](std::size_t i) {
      return std::tuple(mesh(i).num_axes(), known_seconds(i),
                        std::ranges::max(mesh(i).axis_sizes()));
    };
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < meshes.size(); ++i)
      if (!is_searched[i] && (!next || rank(i) < rank(*next))) next = i;
    const bool is_first = std::ranges::none_of(is_searched, std::identity());
    if (is_first || !next) return next;
    if (best_seconds() <= least_seconds || (was_interrupted() && best)) return std::nullopt;
    const double to_build = expected_seconds(longest, mesh(*next).num_axes());
    return to_build < most_to_build * seconds ? next : std::nullopt;
  }

  /// The mesh to search once more, among those that have a plan and may have one below the best:
  /// one whose cost and bound are low.
  std::optional<std::size_t> next_again(const std::vector<bool>& is_again) const {
    const auto rank = [&](std::size_t i) {
      return std::sqrt(trials[i].lower_bound_seconds * known_seconds(i));
    };
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const bool may_win = trials[i].lower_bound_seconds < (1 - small_gap) * best_seconds();
      if (is_again[i] || !trials[i].cost_seconds || !may_win) continue;
      if (!next || rank(i) < rank(*next)) next = i;
    }
    return next;
  }

  void search(std::size_t i, double seconds) {
    SearchOptions own = options;
    own.time_limit_seconds = seconds;
    own.warns = options.warns && std::ranges::none_of(is_searched, std::identity());
    Attempt attempt = search_on(meshes[i], own, least_seconds, start_of(i));
    improve(trials[i], attempt.trial);
    is_searched[i] = true;
    if (attempt.refusal && (!refusal || attempt.least_bytes < least_bytes))
      refusal = attempt.refusal;
    least_bytes = std::min(least_bytes, attempt.least_bytes);
    if (attempt.solved) keep(i, std::move(*attempt.solved));
  }

  void keep(std::size_t i, JointPlan solved) {
    glpk_seconds += solved.report.glpk_seconds;
    double& longest_of_these = longest[mesh(i).num_axes()];
    longest_of_these = std::max(longest_of_these, solved.report.build_seconds);
    const double seconds = solved.predicted.cost_seconds;
    const bool is_best = !best || seconds < plans[*best]->predicted.cost_seconds;
    if (is_best && best && mesh(*best).num_axes() > most_axes_of_kept_plans) plans[*best].reset();
    if (is_best) best = i;
    const bool is_kept = is_best || mesh(i).num_axes() <= most_axes_of_kept_plans;
    if (is_kept && (!plans[i] || seconds < plans[i]->predicted.cost_seconds))
      plans[i] = std::move(solved);
  }
};

using Sizes = std::vector<int>;

/// Ordered, of at most so many factors.
std::vector<Sizes> factorisations(int number, std::size_t most = sharding::DeviceMesh::max_axes) {
  if (number == 1) return {{}};
  std::vector<Sizes> found;
  for (int factor = 2; most > 0 && factor <= number; ++factor) {
    if (number % factor != 0) continue;
    for (Sizes& rest : factorisations(number / factor, most - 1)) {
      rest.insert(rest.begin(), factor);
      found.push_back(std::move(rest));
    }
  }
  return found;
}

bool is_round(int nodes) {
  while (nodes % 2 == 0) nodes /= 2;
  return nodes == 1 || nodes == 3;
}

Submesh submesh_of(int devices, const cost::DeviceModel& device) {
  Submesh made{devices, logical_meshes(devices, device.gpus_per_node)};
  const int fewest = made.views.front().num_axes();
  std::erase_if(made.views, [&](const sharding::DeviceMesh& view) {
    return view.num_axes() > std::max(most_axes_of_stage, fewest);
  });
  return made;
}

}  // namespace

int devices_of_a_node(int devices, int devices_per_node) {
  return devices_per_node > 0 ? std::min(devices, devices_per_node) : devices;
}

std::vector<sharding::DeviceMesh> logical_meshes(int devices, int devices_per_node) {
  [[maybe_unused]] const sharding::DeviceMesh all({devices});  // throws where there are too many
  const int within = devices_of_a_node(devices, devices_per_node);
  if (devices % within != 0) {
    fail("{} devices fill no whole number of nodes of {}: use a multiple, or give a --mesh",
         devices, devices_per_node);
  }
  std::vector<Sizes> found;
  for (const Sizes& nodes : factorisations(devices / within)) {
    for (const Sizes& inner : factorisations(within)) {
      Sizes sizes = nodes;
      sizes.insert(sizes.end(), inner.begin(), inner.end());
      if (sizes.size() <= sharding::DeviceMesh::max_axes) found.push_back(std::move(sizes));
    }
  }
  std::ranges::sort(found, {}, [](const Sizes& sizes) { return std::tuple(sizes.size(), sizes); });
  std::vector<sharding::DeviceMesh> meshes;
  for (Sizes& sizes : found) meshes.emplace_back(sizes.empty() ? Sizes{1} : std::move(sizes));
  return meshes;
}

std::vector<Submesh> submeshes(int devices, const cost::DeviceModel& device,
                               const std::optional<sharding::DeviceMesh>& mesh) {
  if (mesh) return {{mesh->num_devices(), {*mesh}}};
  const int per_node = devices_of_a_node(devices, device.gpus_per_node);
  if (devices % per_node != 0) {
    fail("{} devices fill no whole number of nodes of {}: use a multiple", devices, per_node);
  }
  std::vector<Submesh> found;
  for (int within = 1; within < per_node; within *= 2) found.push_back(submesh_of(within, device));
  for (int nodes = 1; nodes * per_node <= devices; ++nodes) {
    const bool is_all = nodes * per_node == devices;
    if (nodes <= nodes_one_by_one || is_round(nodes) || is_all)
      found.push_back(submesh_of(nodes * per_node, device));
  }
  return found;
}

SolvedPlan search_meshes(const graph::Graph& graph, std::span<const cost::CostModel> meshes,
                         const SearchOptions& options) {
  const graph::StageGraph stage = graph::whole_stage(graph);
  std::vector<Profiles> profiles;
  for (const cost::CostModel& mesh : meshes) profiles.push_back({{.stage = &stage, .cost = &mesh}});
  return only_plan(search_meshes(profiles, options));
}

JointPlan search_meshes(std::span<const Profiles> meshes, const SearchOptions& options) {
  require(!meshes.empty(), "a search has a mesh");
  if (meshes.size() == 1) return search_plan(meshes.front(), options);
  const InterruptionGuard guard{SIGINT};  // Ctrl-C: the best mesh so far will do
  const Stopwatch stopwatch;
  MeshSearches searches(meshes, options);
  const auto seconds_left = [&](double share) {
    return std::max(0.0, share * options.time_limit_seconds - stopwatch.seconds());
  };
  const double least_at_first = least_share_at_first * options.time_limit_seconds;
  for (std::size_t left = meshes.size(); left > 0; --left) {
    // What one mesh does not need is for those behind it.
    const double share = seconds_left(share_of_first_round) / static_cast<double>(left);
    const double seconds = std::max(share, least_at_first);
    const auto next = searches.next_new(seconds);
    if (!next) break;
    searches.search(*next, seconds);
    if (searches.best && seconds_left(share_of_first_round) < least_at_first) break;
  }
  if (!searches.best) refuse(searches.refusal, searches.trials);
  std::vector<bool> is_again(meshes.size(), false);
  while (seconds_left(1) > least_share_again * options.time_limit_seconds && !was_interrupted()) {
    const auto next = searches.next_again(is_again);
    if (!next) break;
    is_again[*next] = true;
    searches.search(*next, share_of_best * seconds_left(1));
  }
  const double bound =
      std::ranges::min(searches.trials, {}, &MeshTrial::lower_bound_seconds).lower_bound_seconds;
  JointPlan& best = *searches.plans[*searches.best];
  const double cost_seconds = best.predicted.cost_seconds;
  SearchReport& report = best.report;
  // Costs are rounded to picoseconds, which bounds by operators are not.
  report.lower_bound_seconds = std::min(bound, cost_seconds);
  report.proven_optimal = bound >= cost_seconds;
  report.search_seconds = stopwatch.seconds();
  report.glpk_seconds = searches.glpk_seconds;
  report.meshes = std::move(searches.trials);
  return std::move(best);
}

}  // namespace autopar::search
