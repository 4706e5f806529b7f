#pragma once

#include "graph/graph.h"

namespace autopar::sharding {

/// Gives the constant scales and zero points of each MatMulNBits their two dimensions, a row for
/// each column of the product, where a file has them flat: so blocks, and with them the product's
/// sum, can be split. No data moves.
void unflatten_packed_scales(graph::Graph& graph);

}  // namespace autopar::sharding
