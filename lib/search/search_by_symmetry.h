#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/stopwatch.h"
#include "search/search_plan.h"

namespace autopar::search {

/// Mesh axes of one size along like links; empty where no two are.
sharding::SymmetricAxes symmetric_axes(const cost::CostModel& cost);

/// Whether the mesh has symmetric axes, and neither pins nor other meshes tell them apart.
bool has_symmetry(std::span<const Profile> profiles, const SearchOptions& options);

/// What the relaxation that does not tell symmetric axes apart (Symmetry) has come to.
struct Relaxation {
  /// No plan of the mesh takes less. Nor does one of a coarser mesh, whose axes are runs of the
  /// mesh's, as long as links are alike.
  double lower_bound_seconds = 0;
  std::vector<plan::Plan> forms{};  ///< by profile, canonical; empty where none was found
};

/// Solves the relaxation with memory at rest alone, in at most this share of the time left; 0 and
/// no forms where it cannot be built by then. Where no axes are symmetric, it does not tell their
/// orders within a dimension apart.
Relaxation relax_symmetry(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                          const SearchOptions& options, double share);

/// The best plan that has these forms, found in at most this share of the time left; nullopt where
/// none fits or can be built by then. Its bound is that of the operators alone.
std::optional<JointPlan> best_of_forms(const Stopwatch& stopwatch,
                                       std::span<const Profile> profiles,
                                       const SearchOptions& options, double share,
                                       const std::vector<plan::Plan>& forms);

}  // namespace autopar::search
