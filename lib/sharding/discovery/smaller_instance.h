#pragma once

#include <optional>

#include "graph/graph.h"
#include "sharding/discovery/discovery.h"

namespace autopar::sharding {

/// The graph of one node on smaller tensors of the same proportions, on which it can be run often:
/// divides extents of the graph's inputs, all that are equal alike, as long as inference divides
/// the outputs' by the same or leaves them; down to at most so many elements of inputs and outputs.
/// nullopt where that cannot be reached. Constants stay as they are.
std::optional<graph::Graph> smaller_instance(const graph::Graph& graph, std::int64_t most_elements);

/// The splits of the tensors as they were: a loop that is all of its dimensions grows with them,
/// but one that an attribute or a constant counts has the size that these say.
Discovery enlarged(Discovery discovery, const graph::Graph& smaller, const graph::Graph& whole);

/// Elements of all inputs and outputs of the graph's only node.
std::int64_t elements_of_node(const graph::Graph& graph);

}  // namespace autopar::sharding
