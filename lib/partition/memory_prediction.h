#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "partition/lowering.h"
#include "search/plan.h"
#include "sharding/connect.h"

namespace autopar::partition {

struct MemoryPrediction {
  std::int64_t weight_bytes = 0;  ///< all constants
  std::int64_t peak_bytes = 0;    ///< constants, one arena, and slots for microbatches in flight
};

/// What a run of one rank's graph needs at most, kernels' scratch memory aside: its constants, and
/// an arena within graph::arena_bound, and graph::slot_bytes, which the runtime keeps to.
MemoryPrediction predict_memory(const graph::Graph& rank_graph, int microbatches = 1);

/// The ranks by class: those of one need the same memory, since each of their shares has the same
/// extents and begins at 0 or does not.
std::vector<std::vector<int>> alike_ranks(const Program& program);

/// The largest peak_bytes of the plan's ranks. `price` as lower() wants it.
std::int64_t predict_peak_bytes(const graph::Graph& graph, const search::Plan& plan,
                                const sharding::StepPrice& price);

}  // namespace autopar::partition
