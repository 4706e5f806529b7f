#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/stage_graph.h"

namespace autopar::search {

/// Where the layers begin, and behind the last one the number of nodes: what is between two cuts is
/// never cut by a stage.
using LayerCuts = std::vector<graph::NodeId>;

/// Clusters consecutive nodes into layers (Alpa, OSDI 22, section 5.2): with as many layers as are
/// asked for, no layer's work far from the average (an operator that is heavier than that has a
/// layer nearly to itself), least bytes between layers, and of equals the most even. `work` is by
/// node, in any unit. `layers` 0 chooses from 32 to 48, or one node each where that is fewer: so
/// that repeated layers of the model make fewest kinds of layers, and of such the most layers.
LayerCuts cluster_layers(const graph::Graph& graph, const graph::StageCutter& cutter,
                         const std::vector<double>& work, int layers);

}  // namespace autopar::search
