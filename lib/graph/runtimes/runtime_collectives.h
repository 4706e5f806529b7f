#pragma once

#include "graph/graph.h"

namespace autopar::graph {

/// Other runtimes' operators for a rank's collectives (graph/onnx/collective_schemas.h). All are of
/// equal shares; what acts on a dimension that the operator does not act on stands between
/// Transposes or Reshapes. The inverse is autopar_collectives.h.

/// `com.microsoft` AllReduce, AllGather (axis, group_size) and AllToAll (group_size) of domain
/// com.microsoft, over all `ranks`. Where the data do not bring one collective behind another, a
/// part of no elements of the first one's output is appended to what the second reads, since ONNX
/// Runtime chooses the order of nodes that do not need each other.
void use_onnx_runtime_collectives(Graph& shard, int ranks);

/// TensorRT's DistCollective of the default domain, along dimension 0, as NVIDIA's page of the
/// operator has it and Polygraphy writes it: `collective_operation` (all_reduce, all_gather or
/// reduce_scatter), `reduce_op` (sum, max, min, avg or none), `root` (-1: none), `nb_rank` (of the
/// group), `group_size` and `groups` (ranks of the group; 0 and absent for all `ranks`). A scalar
/// is reduced as a tensor of one element.
void use_tensorrt_collectives(Graph& shard, int ranks);

}  // namespace autopar::graph
