#pragma once

#include "graph/graph.h"

namespace autopar::sharding {

/// Brings fused projections into the form in which they can be split like separate ones. GPT-2
/// computes q, k and v by one MatMul and a Split; a share of the MatMul's columns is then no share
/// of q, k and v each. Where a Split's input comes, through operators that have the split
/// dimension as a factor of its own, from nothing but constants in that factor, the Split is
/// carried up into the constants: three MatMuls, each on its columns of the weight, which stay
/// views of the mapped file. The results are the same, bit for bit up to the kernels' summation.
void hoist_splits(graph::Graph& graph);

}  // namespace autopar::sharding
