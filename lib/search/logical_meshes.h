#pragma once

#include <optional>
#include <vector>

#include "cost/device_model.h"
#include "sharding/device_mesh.h"

namespace autopar::search {

/// How many devices stand in a node where `devices` are used: all of them where they stand in none
/// (0 a node), or in one.
int devices_of_a_node(int devices, int devices_per_node);

/// Whether all axes within a node have one kind of link, and all across nodes; false where each
/// axis has its own.
bool has_like_links(const cost::DeviceModel& device);

/// Every way to arrange the devices as a mesh: the ordered factorisations of their number, within
/// DeviceMesh::max_axes, those of fewest axes first. Where there are several nodes of
/// `devices_per_node` devices (0: no nodes), nodes and devices of a node are factorised apart,
/// nodes first, so that each axis lies within a node or leads from node to node. Throws Error where
/// the devices fill no whole number of nodes.
std::vector<sharding::DeviceMesh> logical_meshes(int devices, int devices_per_node);

/// The logical meshes, fewest axes first, without those that differ from another one only in the
/// order of axes along like links: their plans cost the same. Kept is the one that the finest mesh
/// refines, if any, else the one whose sizes ascend.
std::vector<sharding::DeviceMesh> meshes_to_search(int devices, const cost::DeviceModel& device);

/// The devices of a stage and the ways to arrange them (Alpa, OSDI 22, section 5.2).
struct Submesh {
  int devices = 1;
  std::vector<sharding::DeviceMesh> views;  ///< fewest axes first
};

/// What a stage may have of `devices`, the smallest first: 2^m devices within a node, or whole
/// nodes (beyond 16 nodes 2^m, 3 * 2^m, or all, which keeps a search for hundreds of nodes short),
/// in every view of at most two axes (or the ones with fewest, where all have more). With `mesh`,
/// that alone. Throws Error where the devices fill no whole number of nodes.
std::vector<Submesh> submeshes(int devices, const cost::DeviceModel& device,
                               const std::optional<sharding::DeviceMesh>& mesh);

}  // namespace autopar::search
