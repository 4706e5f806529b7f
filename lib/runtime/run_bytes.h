#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/arena.h"
#include "graph/graph.h"
#include "runtime/kernel.h"

namespace autopar::runtime {

/// The graph with a type and a shape alone in the place of each large weight, which is all that
/// passes look at. Nothing that they do then takes the time to read a model's weights.
graph::Graph without_large_weights(const graph::Graph& graph);

/// A graph as a device runs it.
struct PackedGraph {
  graph::Graph graph;                            ///< rewritten
  std::vector<graph::BufferLifetime> lifetimes;  ///< by ValueId; of 0 bytes for views of others
  /// Beside the constants of the graph as it was: the arena without scratch memory, and constants
  /// that are made when it is compiled.
  std::int64_t bytes = 0;
};

/// The graph as an Executable will have it; large weights are not read.
PackedGraph packed_graph(const graph::Graph& graph, const KernelTable& kernels, int microbatches);

/// The same on the device that needs most.
PackedGraph packed_graph(const graph::Graph& graph, std::span<const KernelTable* const> devices,
                         int microbatches);

}  // namespace autopar::runtime
