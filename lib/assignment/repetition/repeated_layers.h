#pragma once

#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// What repeats in a problem: layers, node for node and edge for edge alike. A guess that need not
/// hold everywhere: what is made of it is checked, or true whatever it says.
struct RepeatedLayers {
  static constexpr int none = -1;

  int layers = 0;
  std::vector<int> layer;  ///< by node; `none` for nodes that are in no layer
  std::vector<int> kind;   ///< by node; those of one kind differ in their layer alone
  /// By kind and layer, the node; `none` where there is none.
  std::vector<std::vector<int>> nodes;

  /// The node of the same kind so many layers on; `none` where there is none.
  int moved(int node, int by) const {
    const int to = layer[node] + by;
    return to < 0 || to >= layers ? none : nodes[kind[node]][to];
  }
};

/// Nodes are told apart by their costs, usages and surroundings, some edges far (colour
/// refinement), and numbered from layer to layer in their order in the problem. nullopt where fewer
/// than `least_layers` repeat.
std::optional<RepeatedLayers> find_repeated_layers(const AssignmentProblem& problem,
                                                   int least_layers);

}  // namespace autopar::assignment
