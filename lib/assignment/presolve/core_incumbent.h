#pragma once

#include <optional>
#include <vector>

#include "assignment/presolve/presolve.h"
#include "assignment/subproblem.h"

namespace autopar::assignment {

/// The incumbent of a presolved problem while its components are solved one after the other. The
/// cost and the bound of those that are not solved yet count as 0.
struct CoreIncumbent {
  std::vector<int> choice;  ///< by the core's node
  WideCost cost = 0;
  WideCost bound = 0;
  bool has_choice = true;  ///< of every component so far

  explicit CoreIncumbent(const Presolved& presolved)
      : choice(presolved.core.nodes.size(), 0),
        cost(presolved.constant),
        bound(presolved.constant) {}

  /// Adds what was found for the component of these nodes.
  void add(const std::vector<int>& nodes, const Incumbent& component);
  /// In the whole problem's numbers.
  Incumbent of_whole(const Presolved& presolved) const;
};

/// The starts of `whole` that its core can hold.
std::vector<std::vector<int>> starts_of_core(const Subproblem& whole, const Presolved& presolved);

/// The subproblem of the component of these nodes: its cutoff is that of the whole less the bounds
/// so far, and it gets a share of the time and work that are left. nullopt where every choice is
/// over some limit.
std::optional<Subproblem> component_of(const Subproblem& whole, const Presolved& presolved,
                                       AssignmentProblem problem, const std::vector<int>& nodes,
                                       const std::vector<std::vector<int>>& starts,
                                       const CoreIncumbent& so_far, double share);

}  // namespace autopar::assignment
