#pragma once

#include "graph/graph.h"

namespace autopar::graph {

/// Repeats each computed mask of ONNX's Attention that has one row for all queries, by an Expand:
/// the standard broadcasts such a mask, but ONNX Runtime refuses it.
void repeat_rows_of_attention_masks(Graph& shard);

/// The inverse, for what broadcasts masks itself.
void drop_repeated_rows_of_attention_masks(Graph& shard);

}  // namespace autopar::graph
