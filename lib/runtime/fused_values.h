#pragma once

#include <functional>
#include <set>
#include <string>

#include "graph/graph.h"
#include "runtime/kernel.h"

namespace autopar::runtime {

/// Names of the nodes' outputs that a run on such a device never makes, when the graph runs whole:
/// passes fold them, or make one kernel of what writes and what reads them. The graph's weights may
/// be absent.
std::set<std::string, std::less<>> fused_values(const graph::Graph& graph,
                                                const KernelTable& kernels);

/// Names of the nodes' outputs that take no memory of their own in such a run: those, but for what
/// is folded, and views that share the memory of what they view.
std::set<std::string, std::less<>> values_without_memory(const graph::Graph& graph,
                                                         const KernelTable& kernels);

}  // namespace autopar::runtime
