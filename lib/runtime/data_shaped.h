#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace autopar::runtime {

/// The results of a graph of one node whose inputs are constants, where the node is one of those
/// whose results' shapes depend on values: Compress, NonMaxSuppression, NonZero and Unique. nullopt
/// for all other graphs. Throws Error, naming the node, for what the operator does not allow.
std::optional<std::vector<graph::Tensor>> evaluate_data_shaped(const graph::Graph& graph);

}  // namespace autopar::runtime
