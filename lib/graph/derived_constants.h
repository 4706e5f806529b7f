#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace autopar::graph {

/// Bytes that a runtime may take beside an arena for constants that it computes of others once,
/// where every run would compute them anew:
/// - as many as those have that nothing else reads, whose place they take;
/// - as many as products of constants have, and what follows from these without growing, as far as
///   other nodes read them, unless that is more than a quarter of the bytes of the graph's weights,
///   and more than is little beside any. DeBERTa multiplies its table of relative positions by two
///   weights of each layer.
std::int64_t derived_constant_bytes(const Graph& graph);

}  // namespace autopar::graph
