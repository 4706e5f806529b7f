#pragma once

namespace autopar::graph {

/// Registers the operators of domain "autopar", version 1, with ONNX's schema registry, once:
/// AllReduce(reduce), AllGather(dim), ReduceScatter(reduce, dim), AllToAll(split_dim, concat_dim),
/// Broadcast(root), Send(peer), Recv(peer, shape, dtype). Each has `mesh_axes` (ints) and `ranks`
/// (ints: its group, in order). AllGather, ReduceScatter and AllToAll also have `sizes` (ints),
/// each group member's extent of the gathered dimension or of its share, since shares may be
/// uneven; AllToAll has `split_sizes` and `concat_sizes` (by group member) instead.
void register_collective_schemas();

}  // namespace autopar::graph
