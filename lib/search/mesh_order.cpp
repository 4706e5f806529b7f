#include "search/mesh_order.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>

#include "search/coarse_plan.h"

namespace autopar::search {

namespace {

/// A mesh whose plan may be better by no more than this part is not searched again.
constexpr double small_gap = 1e-3;

/// The place of the least rank among the trials that `is_candidate` lets in.
template <typename IsCandidate, typename Rank>
std::optional<std::size_t> least_of(std::span<const MeshTrial> trials, IsCandidate is_candidate,
                                    Rank rank) {
  std::optional<std::size_t> least;
  for (std::size_t i = 0; i < trials.size(); ++i)
    if (is_candidate(i) && (!least || rank(trials[i]) < rank(trials[*least]))) least = i;
  return least;
}

/// The sizes of all groups of axes: the more there are, the more ways to split a tensor.
std::set<int> group_sizes(const sharding::DeviceMesh& mesh) {
  std::set<int> sizes{1};
  for (const int axis : mesh.axis_sizes())
    for (const int size : std::vector<int>(sizes.begin(), sizes.end())) sizes.insert(size * axis);
  return sizes;
}

}  // namespace

bool was_searched(const MeshTrial& trial) { return trial.cost_seconds || !trial.refusal.empty(); }

double known_seconds(std::span<const MeshTrial> trials, const sharding::DeviceMesh& mesh) {
  double least = std::numeric_limits<double>::infinity();
  for (const MeshTrial& trial : trials)
    if (trial.cost_seconds && runs_between(trial.mesh, mesh))
      least = std::min(least, *trial.cost_seconds);
  return least;
}

std::optional<std::size_t> next_new_mesh(std::span<const MeshTrial> trials, AxesRange axes) {
  return least_of(
      trials,
      [&](std::size_t i) {
        const int count = trials[i].mesh.num_axes();
        return !was_searched(trials[i]) && count >= axes.fewest && count <= axes.most;
      },
      [&](const MeshTrial& trial) {
        const std::vector<int>& sizes = trial.mesh.axis_sizes();
        const int largest = std::ranges::max(sizes);
        return std::tuple(sizes.size(), known_seconds(trials, trial.mesh),
                          std::max(largest * largest, trial.mesh.num_devices()),
                          -std::ssize(group_sizes(trial.mesh)), largest);
      });
}

std::optional<std::size_t> next_mesh_again(std::span<const MeshTrial> trials, double best_seconds,
                                           const std::vector<bool>& is_again) {
  const auto may_win = [&](std::size_t i) {
    return !is_again[i] && trials[i].cost_seconds &&
           trials[i].lower_bound_seconds < (1 - small_gap) * best_seconds;
  };
  return least_of(trials, may_win, [&](const MeshTrial& trial) {
    return std::sqrt(trial.lower_bound_seconds * known_seconds(trials, trial.mesh));
  });
}

}  // namespace autopar::search
