#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "search/search_report.h"

namespace autopar::search {

// Which of several meshes to search next, by what is known of each so far.

/// Whether it has a plan or a reason why not.
bool was_searched(const MeshTrial& trial);

/// What a plan on the mesh need not exceed: the least cost on it and on those that it refines;
/// infinite where there is none.
double known_seconds(std::span<const MeshTrial> trials, const sharding::DeviceMesh& mesh);

/// Numbers of axes.
struct AxesRange {
  int fewest = 1;
  int most = 1;
};

/// The next of those of so many axes that were not searched: fewest axes first, of these the ones
/// that refine the mesh of the cheapest plan, of these the most even one; all whose largest axis is
/// no longer than the root of the devices count as even, and more sizes of groups come first.
/// nullopt where all were.
std::optional<std::size_t> next_new_mesh(std::span<const MeshTrial> trials, AxesRange axes);

/// The one to search once more: whose cost and bound are low, among those that have a plan and may
/// have one below `best_seconds`. nullopt where there is none beside those that `is_again` marks.
std::optional<std::size_t> next_mesh_again(std::span<const MeshTrial> trials, double best_seconds,
                                           const std::vector<bool>& is_again);

}  // namespace autopar::search
