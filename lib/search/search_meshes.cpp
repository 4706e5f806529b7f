#include "search/search_meshes.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/interruption.h"
#include "base/stopwatch.h"
#include "search/operator_bound.h"

namespace autopar::search {

namespace {

/// Every further mesh axis multiplies an operator's strategies by about 5, and the tables of two
/// operators by the square of that: a problem has been seen to take 20 times as long to build.
constexpr double growth_an_axis = 20;

/// The part of a mesh's time that its problem may take to build: else nothing is found in the rest.
constexpr double most_to_build = 0.5;

/// The part of the time in which meshes have equal shares. The rest goes to those that look best
/// then.
constexpr double share_of_first_round = 0.6;
/// The part of the time left for the one that looks best, while others may yet be better.
constexpr double share_of_best = 0.6;
/// Time that is too little for another search, as a part of the limit.
constexpr double least_share = 0.1;
/// A mesh whose plan is proven to this part is not searched again.
constexpr double small_gap = 1e-3;

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
  const auto& [known, seconds] = *std::prev(more);
  return seconds * std::pow(growth_an_axis, axes - known);
}

/// The search of one mesh: a plan, or why there is none.
struct Attempt {
  MeshTrial trial;
  std::optional<JointPlan> solved{};
  std::exception_ptr refusal{};
  std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();  ///< as NothingFits has it
};

/// `least_seconds`: no plan on any mesh takes less. `coarser`: the best plan so far, if any.
Attempt search_on(const Profiles& profiles, const SearchOptions& options, double least_seconds,
                  const std::optional<JointPlan>& coarser) {
  Attempt attempt{.trial = {.mesh = mesh_of(profiles)}};
  MeshTrial& trial = attempt.trial;
  try {
    attempt.solved = search_plan(profiles, options, coarser ? &*coarser : nullptr);
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

/// Both were of the same mesh.
void improve(MeshTrial& known, const MeshTrial& again) {
  known.lower_bound_seconds = std::max(known.lower_bound_seconds, again.lower_bound_seconds);
  if (!again.cost_seconds) return;
  known.cost_seconds = std::min(known.cost_seconds.value_or(infinity), *again.cost_seconds);
  known.refusal.clear();
}

/// The searches of all meshes, one after the other.
struct MeshSearches {
  std::span<const Profiles> meshes;
  const SearchOptions& options;
  const double least_seconds;  ///< no plan on any mesh takes less
  std::optional<JointPlan> best{};
  std::vector<MeshTrial> trials{};  ///< by mesh, of those searched or left out so far
  LongestBuilds longest{};
  std::exception_ptr refusal{};  ///< with the least memory
  std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();
  double glpk_seconds = 0;

  bool may_be_worth_it(std::size_t i, double seconds) const {
    if (i == 0) return true;
    if (was_interrupted()) return !best;
    if (best && best->predicted.cost_seconds <= least_seconds) return false;
    return expected_seconds(longest, mesh_of(meshes[i]).num_axes()) < most_to_build * seconds;
  }

  void leave_out(std::size_t i) {
    trials.push_back({.mesh = mesh_of(meshes[i]), .lower_bound_seconds = least_seconds});
  }

  /// For the first time, or once more.
  void search(std::size_t i, double seconds) {
    SearchOptions own = options;
    own.time_limit_seconds = seconds;
    own.warns = options.warns && trials.empty();
    Attempt attempt = search_on(meshes[i], own, least_seconds, best);
    if (i == trials.size())
      trials.push_back(attempt.trial);
    else
      improve(trials[i], attempt.trial);
    if (attempt.refusal && (!refusal || attempt.least_bytes < least_bytes))
      refusal = attempt.refusal;
    least_bytes = std::min(least_bytes, attempt.least_bytes);
    if (!attempt.solved) return;
    const SearchReport& found = attempt.solved->report;
    glpk_seconds += found.glpk_seconds;
    double& longest_of_these = longest[mesh_of(meshes[i]).num_axes()];
    longest_of_these = std::max(longest_of_these, found.build_seconds);
    if (!best || attempt.trial.cost_seconds < best->predicted.cost_seconds)
      best = std::move(attempt.solved);
  }

  /// The mesh of the least bound among those that have a plan and may have one below the best.
  std::optional<std::size_t> most_promising(const std::vector<bool>& is_again) const {
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const double bound = trials[i].lower_bound_seconds;
      const bool may_win = bound < (1 - small_gap) * best->predicted.cost_seconds;
      if (is_again[i] || !trials[i].cost_seconds || !may_win) continue;
      if (!next || bound < trials[*next].lower_bound_seconds) next = i;
    }
    return next;
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
  MeshSearches searches{meshes, options,
                        least_seconds_on(mesh_of(meshes.front()).num_devices(), meshes.front())};
  const auto seconds_left = [&](double share) {
    return std::max(0.0, share * options.time_limit_seconds - stopwatch.seconds());
  };
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    // What one mesh does not need is for those behind it.
    const double seconds =
        seconds_left(share_of_first_round) / static_cast<double>(meshes.size() - i);
    if (searches.may_be_worth_it(i, seconds))
      searches.search(i, seconds);
    else
      searches.leave_out(i);
  }
  if (!searches.best) refuse(searches.refusal, searches.trials);
  std::vector<bool> is_again(meshes.size(), false);
  while (seconds_left(1) > least_share * options.time_limit_seconds && !was_interrupted()) {
    const auto next = searches.most_promising(is_again);
    if (!next) break;
    is_again[*next] = true;
    searches.search(*next, share_of_best * seconds_left(1));
  }
  const double bound =
      std::ranges::min(searches.trials, {}, &MeshTrial::lower_bound_seconds).lower_bound_seconds;
  JointPlan& best = *searches.best;
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
