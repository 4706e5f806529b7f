#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/stopwatch.h"
#include "search/search_plan.h"

namespace autopar::search {

/// Whether the mesh has symmetric axes, and neither pins nor other meshes tell them apart.
bool has_symmetry(std::span<const Profile> profiles, const SearchOptions& options);

/// What a relaxation has come to.
struct Relaxation {
  /// No plan of the mesh takes less. Nor does one of a coarser mesh, whose axes are runs of the
  /// mesh's, as long as links are alike.
  double lower_bound_seconds = 0;
  std::vector<plan::Plan> forms{};  ///< by profile; empty where none was found
};

/// Solves the relaxation that does not tell symmetric axes apart (Symmetry), which there must be,
/// with memory at rest alone, in at most this share of the time left; 0 and no forms where it
/// cannot be built by then. Forms are canonical.
Relaxation relax_symmetry(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                          const SearchOptions& options, double share);

/// The best plan that has these forms, found in at most this share of the time left; nullopt where
/// none fits or can be built by then. Its bound is that of the operators alone.
std::optional<JointPlan> best_of_forms(const Stopwatch& stopwatch,
                                       std::span<const Profile> profiles,
                                       const SearchOptions& options, double share,
                                       const std::vector<plan::Plan>& forms);

/// Solves the relaxation in which copies of a tensor with several readers may count for less
/// (Copies), with all strategies and memory at rest alone, in at most this share of the time left;
/// 0 and no forms where it cannot be built by then. Forms are plans, of this or a lower cost, whose
/// shards fit; without `run_bytes` in the options, what they have at rest does. `start`: a plan to
/// begin with, of the mesh or a coarser one, or null.
Relaxation relax_copies(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                        const SearchOptions& options, double share, const JointPlan* start);

}  // namespace autopar::search
