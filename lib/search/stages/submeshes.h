#pragma once

#include <optional>
#include <vector>

#include "cost/device_model.h"
#include "sharding/device_mesh.h"

namespace autopar::search {

/// The devices of a stage and the ways to arrange them (Alpa, OSDI 22, section 5.2).
struct Submesh {
  int devices = 1;
  std::vector<sharding::DeviceMesh> views;  ///< fewest axes first
};

/// How many devices stand in a node where `devices` are used: all of them where they stand in none,
/// or in one.
int devices_of_a_node(int devices, const cost::DeviceModel& device);

/// What a stage may have of `devices`, the smallest first: 2^m devices within a node, or whole
/// nodes (beyond 16 nodes 2^m, 3 * 2^m, or all, which keeps a search for hundreds of nodes short),
/// in every view of at most two axes (or the ones with fewest, where all have more). With `mesh`,
/// that alone. Throws Error where the devices fill no whole number of nodes.
std::vector<Submesh> submeshes(int devices, const cost::DeviceModel& device,
                               const std::optional<sharding::DeviceMesh>& mesh);

}  // namespace autopar::search
