#pragma once

#include "graph/graph.h"
#include "program/lowering.h"

namespace autopar::program {

/// One rank's graph: local shapes, weights as slices (views) of the model's, collectives as nodes
/// of the domain "autopar", in the program's order, which all ranks share. Base versions, and so
/// model inputs and outputs, keep their names; others are called after value and spec, "x@RS0".
/// `rank` is that on the program's mesh; in collectives the mesh's ranks count from `first_rank`
/// on.
graph::Graph rank_graph(const Program& program, int rank, int first_rank = 0);

}  // namespace autopar::program
