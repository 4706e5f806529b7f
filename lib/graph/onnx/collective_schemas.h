#pragma once

namespace autopar::graph {

/// Registers the operators of domain "autopar", version 1, with the SchemaRegistry, once.
/// Every one within a stage has `mesh_axes` (ints), `ranks` (ints: the world ranks of its group, in
/// order) and `rank`, this rank's index in the group (not its world rank).
///
///   AllReduce      reduce ("sum", "max", "min" or "mean")
///   AllGather      dim, sizes
///   ReduceScatter  reduce, dim, sizes
///   AllToAll       split_dim, concat_dim, split_sizes, concat_sizes
///   Broadcast      root
///   Send           peers, starts, ends                (no output)
///   Recv           peers, starts, ends, shape, dtype  (no input)
///
/// Send and Recv lead from stage to stage, a message for each entry of `peers` (ints: world ranks);
/// their `rank` is this one's world rank.
/// `starts` and `ends` (ints, by message and dimension) tell the box of the local tensor that it
/// fills; those of one Recv are disjoint and cover its output.
///
/// Those within a stage may read the output of the collective before as a second input, `after`,
/// which tells nothing but the order.
///
/// Shares may be uneven, so `sizes` (ints, one a group member) gives the extent of `dim` that each
/// contributes or receives; `split_sizes` and `concat_sizes` do so for AllToAll's two dimensions.
/// `rank` picks the extent that this rank receives.
void register_collective_schemas();

}  // namespace autopar::graph
