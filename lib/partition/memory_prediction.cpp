#include "partition/memory_prediction.h"

#include <algorithm>

#include "graph/arena.h"
#include "partition/lowering.h"
#include "partition/rank_graph.h"

namespace autopar::partition {

MemoryPrediction predict_memory(const graph::Graph& rank_graph) {
  MemoryPrediction prediction;
  prediction.weight_bytes = graph::constant_bytes(rank_graph);
  prediction.peak_bytes = prediction.weight_bytes + graph::arena_bound(rank_graph);
  return prediction;
}

std::int64_t predict_peak_bytes(const graph::Graph& graph, const search::Plan& plan,
                                const sharding::StepPrice& price) {
  const Program program = lower(graph, plan, price);
  std::int64_t peak = 0;
  for (int rank = 0; rank < plan.mesh.num_devices(); ++rank) {
    peak = std::max(peak, predict_memory(rank_graph(graph, plan, program, rank)).peak_bytes);
  }
  return peak;
}

}  // namespace autopar::partition
