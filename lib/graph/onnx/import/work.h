#pragma once

#include "graph/graph.h"
#include "graph/onnx/tail_file.h"

namespace autopar::graph {

/// A model's arithmetic, to compare its parts: multiply-adds of products, one operation for each
/// element of all else.
double work(const Graph& graph);

/// What a tail has at least, as far as shapes are known before a run: unknown extents are counted
/// as 1, and graphs within nodes not at all.
double least_work(const Tail& tail);

}  // namespace autopar::graph
