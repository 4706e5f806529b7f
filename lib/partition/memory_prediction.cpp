#include "partition/memory_prediction.h"

#include "graph/arena.h"

namespace autopar::partition {

MemoryPrediction predict_memory(const graph::Graph& rank_graph) {
  MemoryPrediction prediction;
  for (const graph::Value& value : rank_graph.values) {
    if (value.constant) prediction.weight_bytes += value.constant->size_bytes();
  }
  prediction.peak_bytes = prediction.weight_bytes + graph::arena_bound(rank_graph);
  return prediction;
}

}  // namespace autopar::partition
