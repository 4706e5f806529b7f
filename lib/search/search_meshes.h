#pragma once

#include <span>
#include <vector>

#include "search/search_plan.h"

namespace autopar::search {

/// Every way to arrange the devices as a mesh: the ordered factorisations of their number, within
/// DeviceMesh::max_axes, those of fewest axes first. (Order matters: of two axes that split one
/// dimension, the first is the major one.) Where there are several nodes of `devices_per_node`
/// devices (0: no nodes), nodes and devices of a node are factorised apart, nodes first, so that
/// each axis lies within a node or leads from node to node. Throws Error where the devices fill no
/// whole number of nodes.
std::vector<sharding::DeviceMesh> logical_meshes(int devices, int devices_per_node);

/// The cheapest plan over several meshes of the same devices, those of fewest axes first and
/// preferred where plans cost the same. `options.time_limit_seconds` is for all meshes together; a
/// mesh that there is no time for is left out. The report tells of every mesh; its lower bound is
/// the least of all meshes', of those left out too, and an optimum is proven only where no mesh
/// can have a cheaper plan. Throws as search_plan where there is no plan on any mesh: where none
/// fits the memory limit, the error that names the least memory.
SolvedPlan search_meshes(const graph::Graph& graph, std::span<const cost::CostModel> meshes,
                         const SearchOptions& options);

}  // namespace autopar::search
