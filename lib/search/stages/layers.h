#pragma once

#include <span>
#include <vector>

#include "cost/device_model.h"
#include "graph/stage_graph.h"

namespace autopar::search {

/// Where the layers begin, and behind the last one the number of nodes: what is between two cuts is
/// never cut by a stage.
using LayerCuts = std::vector<graph::NodeId>;

/// Where layers may begin, 0 among it: no state is parted.
std::vector<graph::NodeId> possible_cuts(const graph::Graph& graph,
                                         const graph::StageCutter& cutter);

/// Clusters consecutive nodes into layers (Alpa, OSDI 22, section 5.2): with as many layers as are
/// asked for, no layer's work far from the average (an operator that is heavier than that has a
/// layer nearly to itself), least bytes between layers, and of equals the most even. `work` is by
/// node, in any unit. `layers` 0 chooses from 32 to 48, or one node each where that is fewer: so
/// that repeated layers of the model make fewest kinds of layers, and of such the most layers.
/// There are fewer than that where there are fewer possible_cuts.
LayerCuts cluster_layers(const graph::Graph& graph, const graph::StageCutter& cutter,
                         const std::vector<double>& work, int layers);

/// Which runs of layers make the same stage but for names: node for node and value for value of
/// graph::StageGraph, so that a plan of one is a plan of the other.
struct RunClasses {
  int layers = 0;
  int count = 0;
  std::vector<int> classes{};  ///< by begin and end

  /// The class of layers [begin, end).
  int of(int begin, int end) const { return classes[begin * (layers + 1) + end]; }
};

/// By a hash of 128 bits of all that the search looks at: operators, attributes, wiring, types,
/// shapes, small constants' contents, what is received and sent. `told_apart`: sets of values that
/// are priced otherwise than the rest, some may be null. `names_matter`: runs of other names are
/// other stages, for pins.
RunClasses find_run_classes(const graph::Graph& graph, const graph::StageCutter& cutter,
                            const LayerCuts& cuts,
                            std::span<const cost::ValueNames* const> told_apart = {},
                            bool names_matter = false);

}  // namespace autopar::search
