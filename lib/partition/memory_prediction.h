#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace autopar::partition {

struct MemoryPrediction {
  std::int64_t weight_bytes = 0;  ///< all constants
  std::int64_t peak_bytes = 0;    ///< constants, and one arena for everything else
};

/// What a run of one rank's graph needs. The arena has every value of the graph, node by node; the
/// runtime aliases and fuses some of them away and plans what is left in the same way, so that its
/// constants and arena, kernels' scratch memory aside, are no larger.
MemoryPrediction predict_memory(const graph::Graph& rank_graph);

}  // namespace autopar::partition
