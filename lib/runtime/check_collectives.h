#pragma once

#include "bundle/meta_info.h"
#include "graph/graph.h"
#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// Throws Error naming the node where a collective of a rank's shard is not one of the groups of
/// meta-info.json, or has sizes, a root or a reduction that its tensor and its group do not have:
/// members would read and write beyond their tensors.
void check_collectives(const bundle::MetaInfo& info, const graph::Graph& shard, int rank);

/// Throws Error where the members of a group have other collectives, in kind, order or sizes. Every
/// rank of the world calls it.
void compare_collectives(const graph::Graph& shard, HostCommunicator& world);

}  // namespace autopar::runtime
