#pragma once

#include "graph/graph.h"

namespace autopar::graph {

/// Repeats each computed mask of ONNX's Attention that has one row for all queries, by an Expand:
/// the standard broadcasts such a mask, but ONNX Runtime refuses it. autopar's runtime reads the
/// row itself (runtime/passes/drop_identities.cpp).
void repeat_rows_of_attention_masks(Graph& shard);

}  // namespace autopar::graph
