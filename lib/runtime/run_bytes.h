#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/arena.h"
#include "graph/graph.h"
#include "runtime/kernel.h"

namespace autopar::runtime {

/// A graph as a device runs it.
struct PackedGraph {
  graph::Graph graph;                            ///< rewritten
  std::vector<graph::BufferLifetime> lifetimes;  ///< by ValueId; of 0 bytes for views of others
  /// Beside the constants of the graph as it was: the arena without scratch memory, and constants
  /// that are made when it is compiled.
  std::int64_t bytes = 0;
};

using ValueNames = std::set<std::string, std::less<>>;

/// The graph as an Executable will have it; large weights are not read. `elsewhere`: inputs that
/// lie in buffers of a session's (StateBuffers), whose bytes are not among the graph's.
PackedGraph packed_graph(const graph::Graph& graph, const KernelTable& kernels, int microbatches,
                         const ValueNames& elsewhere = {});

/// The same on the device that needs most.
PackedGraph packed_graph(const graph::Graph& graph, std::span<const KernelTable* const> devices,
                         int microbatches, const ValueNames& elsewhere = {});

/// Names of the nodes' outputs that a run on such a device never makes, when the graph runs whole:
/// passes fold them, or make one kernel of what writes and what reads them. The graph's weights may
/// be absent.
ValueNames fused_values(const graph::Graph& graph, const KernelTable& kernels);

/// Names of the nodes' outputs that take no memory of their own in such a run: those, but for what
/// is folded, and views that share the memory of what they view.
ValueNames values_without_memory(const graph::Graph& graph, const KernelTable& kernels);

/// Names of the nodes' outputs that such a run, were nothing fused but what it moves as one
/// operator, makes with their channels last. Those that it only reorders for a reader are not.
ValueNames channels_last_values(const graph::Graph& graph, const KernelTable& kernels);

}  // namespace autopar::runtime
