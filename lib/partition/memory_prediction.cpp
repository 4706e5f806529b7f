#include "partition/memory_prediction.h"

#include <vector>

#include "graph/arena.h"

namespace autopar::partition {

MemoryPrediction predict_memory(const graph::Graph& rank_graph) {
  MemoryPrediction prediction;
  for (const graph::Value& value : rank_graph.values) {
    if (value.constant) prediction.weight_bytes += value.constant->size_bytes();
  }
  std::vector<graph::BufferLifetime> lifetimes = graph::value_lifetimes(rank_graph);
  for (const graph::ValueId input : rank_graph.inputs) {
    // The caller writes an input even where no node reads it.
    const graph::Value& value = rank_graph.value(input);
    lifetimes[static_cast<std::size_t>(input)].bytes =
        graph::bytes_of(value.type, graph::num_elements(value.shape));
  }
  prediction.peak_bytes = prediction.weight_bytes + graph::plan_arena(lifetimes).bytes;
  return prediction;
}

}  // namespace autopar::partition
