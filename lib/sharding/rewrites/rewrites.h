#pragma once

#include "graph/graph.h"

/// Changes of a graph that let more of it be split, and leave its results as they are.
namespace autopar::sharding {

/// Brings fused projections into the form in which they can be split like separate ones. GPT-2
/// computes q, k and v by one MatMul and a Split; a share of the MatMul's columns is then no share
/// of q, k and v each. Where a Split's input comes, through operators that have the split
/// dimension as a factor of its own, from nothing but constants in that factor, the Split is
/// carried up into the constants: three MatMuls, each on its columns of the weight, which stay
/// views of the mapped file. The results are the same, bit for bit up to the kernels' summation.
void hoist_splits(graph::Graph& graph);

/// Gives the constant scales and zero points of each MatMulNBits their two dimensions, a row for
/// each column of the product, where a file has them flat: so blocks, and with them the product's
/// sum, can be split. No data moves.
void unflatten_packed_scales(graph::Graph& graph);

/// Makes each Gather and GatherND that takes everything, in order, the Reshape that it is.
/// Exporters write such for masks: indices b * sequence + s of a mask that they have flattened, or
/// (b, s). A reshape can be split where a lookup by indices that count through the whole batch
/// cannot.
void reshape_whole_gathers(graph::Graph& graph);

}  // namespace autopar::sharding
