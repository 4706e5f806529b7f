#pragma once

#include <vector>

#include "sharding/device_mesh.h"

namespace autopar::search {

/// Every way to arrange the devices as a mesh: the ordered factorisations of their number, within
/// DeviceMesh::max_axes, those of fewest axes first. (Order matters: of two axes that split one
/// dimension, the first is the major one.) Where there are several nodes of `devices_per_node`
/// devices (0: no nodes), nodes and devices of a node are factorised apart, nodes first, so that
/// each axis lies within a node or leads from node to node. Throws Error where the devices fill no
/// whole number of nodes.
std::vector<sharding::DeviceMesh> logical_meshes(int devices, int devices_per_node);

}  // namespace autopar::search
