#pragma once

#include "graph/graph.h"

namespace autopar::sharding {

/// Makes each Gather and GatherND that takes everything, in order, the Reshape that it is.
/// Exporters write such for masks: indices b * sequence + s of a mask that they have flattened, or
/// (b, s). A reshape can be split where a lookup by indices that count through the whole batch
/// cannot.
void reshape_whole_gathers(graph::Graph& graph);

}  // namespace autopar::sharding
