#include "search/stages/submeshes.h"

#include <algorithm>

#include "base/error.h"
#include "search/search_meshes.h"

namespace autopar::search {

namespace {

/// Each axis more multiplies the strategies; a third has not been seen to pay.
constexpr int most_axes = 2;

/// Beyond so many, whole nodes come in powers of two and half as many more.
constexpr int nodes_one_by_one = 16;

bool is_round(int nodes) {
  while (nodes % 2 == 0) nodes /= 2;
  return nodes == 1 || nodes == 3;
}

Submesh submesh_of(int devices, const cost::DeviceModel& device) {
  Submesh made{devices, logical_meshes(devices, device.gpus_per_node)};
  const int fewest = made.views.front().num_axes();
  std::erase_if(made.views, [&](const sharding::DeviceMesh& view) {
    return view.num_axes() > std::max(most_axes, fewest);
  });
  return made;
}

}  // namespace

int devices_of_a_node(int devices, const cost::DeviceModel& device) {
  return device.gpus_per_node > 0 ? std::min(devices, device.gpus_per_node) : devices;
}

std::vector<Submesh> submeshes(int devices, const cost::DeviceModel& device,
                               const std::optional<sharding::DeviceMesh>& mesh) {
  if (mesh) return {{mesh->num_devices(), {*mesh}}};
  const int per_node = devices_of_a_node(devices, device);
  if (devices % per_node != 0) {
    fail("{} devices fill no whole number of nodes of {}: use a multiple", devices, per_node);
  }
  std::vector<Submesh> found;
  for (int within = 1; within < per_node; within *= 2) found.push_back(submesh_of(within, device));
  for (int nodes = 1; nodes * per_node <= devices; ++nodes) {
    const bool is_all = nodes * per_node == devices;
    if (nodes <= nodes_one_by_one || is_round(nodes) || is_all)
      found.push_back(submesh_of(nodes * per_node, device));
  }
  return found;
}

}  // namespace autopar::search
