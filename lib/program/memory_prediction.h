#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "program/lowering.h"
#include "sharding/connect.h"

namespace autopar::program {

/// The bytes that a run of a rank's graph needs beside its constants, for so many microbatches and
/// without kernels' scratch memory. Only the runtime, which stands above, knows them; so they are
/// handed in.
using RunBytes = std::function<std::int64_t(const graph::Graph& rank_graph, int microbatches)>;

/// Bytes that no device of the runtime exceeds: graph::arena_bound and graph::slot_bytes.
std::int64_t most_run_bytes(const graph::Graph& rank_graph, int microbatches);

struct MemoryPrediction {
  std::int64_t weight_bytes = 0;  ///< all constants
  std::int64_t peak_bytes = 0;    ///< with all else that a run needs
};

/// The most that a run of one rank's graph needs, kernels' scratch memory aside.
MemoryPrediction predict_memory(const graph::Graph& rank_graph, int microbatches = 1,
                                const RunBytes& run_bytes = most_run_bytes);

/// The ranks by class: those of one need the same memory, since each of their shares has the same
/// extents and begins at 0 or does not.
std::vector<std::vector<int>> alike_ranks(const Program& program);

}  // namespace autopar::program
