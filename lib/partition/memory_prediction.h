#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace autopar::partition {

struct MemoryPrediction {
  std::int64_t weight_bytes = 0;  ///< all constants
  std::int64_t peak_bytes = 0;    ///< constants, and one arena for everything else
};

/// What a run of one rank's graph needs at most, kernels' scratch memory aside: its constants, and
/// an arena within graph::arena_bound, which the runtime keeps to.
MemoryPrediction predict_memory(const graph::Graph& rank_graph);

}  // namespace autopar::partition
