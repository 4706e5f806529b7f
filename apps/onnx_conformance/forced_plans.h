#pragma once

#include <vector>

#include "graph/graph.h"
#include "search/pins.h"
#include "sharding/device_mesh.h"

namespace autopar::conformance {

/// Strategies to pin, a plan an entry: the k-th plan has each operator in the k-th of its
/// strategies that split something, as long as it has so many. For a graph of one operator that is
/// every non-trivial plan that its rule allows; in any graph every operator has each of its
/// strategies once. Empty where no rule splits anything.
std::vector<std::vector<search::Pin>> forced_plans(const graph::Graph& graph,
                                                   const sharding::DeviceMesh& mesh);

}  // namespace autopar::conformance
