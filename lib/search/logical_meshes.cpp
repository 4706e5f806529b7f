#include "search/logical_meshes.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "search/coarse_plan.h"

namespace autopar::search {

namespace {

/// Each axis more multiplies a stage's strategies, and a third has not been seen to pay.
constexpr int most_axes_of_stage = 2;

/// Beyond so many, whole nodes come in powers of two and half as many more.
constexpr int nodes_one_by_one = 16;

using Sizes = std::vector<int>;

/// Ordered, of at most so many factors.
std::vector<Sizes> factorisations(int number, std::size_t most = sharding::DeviceMesh::max_axes) {
  if (number == 1) return {{}};
  std::vector<Sizes> found;
  for (int factor = 2; most > 0 && factor <= number; ++factor) {
    if (number % factor != 0) continue;
    for (Sizes& rest : factorisations(number / factor, most - 1)) {
      rest.insert(rest.begin(), factor);
      found.push_back(std::move(rest));
    }
  }
  return found;
}

bool is_round(int nodes) {
  while (nodes % 2 == 0) nodes /= 2;
  return nodes == 1 || nodes == 3;
}

/// The sizes of axes across nodes and of those within one, each ascending.
std::pair<Sizes, Sizes> sizes_by_link(const sharding::DeviceMesh& mesh, int devices_of_node) {
  std::pair<Sizes, Sizes> sizes;
  int left = mesh.num_devices();
  for (const int size : mesh.axis_sizes()) {
    (left > devices_of_node ? sizes.first : sizes.second).push_back(size);
    left /= size;
  }
  std::ranges::sort(sizes.first);
  std::ranges::sort(sizes.second);
  return sizes;
}

Submesh submesh_of(int devices, const cost::DeviceModel& device) {
  Submesh made{devices, meshes_to_search(devices, device)};
  const int fewest = made.views.front().num_axes();
  std::erase_if(made.views, [&](const sharding::DeviceMesh& view) {
    return view.num_axes() > std::max(most_axes_of_stage, fewest);
  });
  return made;
}

}  // namespace

int devices_of_a_node(int devices, int devices_per_node) {
  return devices_per_node > 0 ? std::min(devices, devices_per_node) : devices;
}

bool has_like_links(const cost::DeviceModel& device) {
  return device.links.size() == 1 || device.gpus_per_node > 0;
}

std::vector<sharding::DeviceMesh> logical_meshes(int devices, int devices_per_node) {
  [[maybe_unused]] const sharding::DeviceMesh all({devices});  // throws where there are too many
  const int within = devices_of_a_node(devices, devices_per_node);
  if (devices % within != 0) {
    fail("{} devices fill no whole number of nodes of {}: use a multiple, or give a --mesh",
         devices, devices_per_node);
  }
  std::vector<Sizes> found;
  for (const Sizes& nodes : factorisations(devices / within)) {
    for (const Sizes& inner : factorisations(within)) {
      Sizes sizes = nodes;
      sizes.insert(sizes.end(), inner.begin(), inner.end());
      if (sizes.size() <= sharding::DeviceMesh::max_axes) found.push_back(std::move(sizes));
    }
  }
  std::ranges::sort(found, {}, [](const Sizes& sizes) { return std::tuple(sizes.size(), sizes); });
  std::vector<sharding::DeviceMesh> meshes;
  for (Sizes& sizes : found) meshes.emplace_back(sizes.empty() ? Sizes{1} : std::move(sizes));
  return meshes;
}

std::vector<sharding::DeviceMesh> meshes_to_search(int devices, const cost::DeviceModel& device) {
  std::vector<sharding::DeviceMesh> all = logical_meshes(devices, device.gpus_per_node);
  if (!has_like_links(device)) return all;
  const int within = devices_of_a_node(devices, device.gpus_per_node);
  const auto finest = std::ranges::max_element(all, {}, &sharding::DeviceMesh::num_axes);
  std::map<std::pair<Sizes, Sizes>, std::size_t> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [known, is_new] = kept.try_emplace(sizes_by_link(all[i], within), i);
    const auto is_run = [&](std::size_t mesh) {
      return runs_between(all[mesh], *finest).has_value();
    };
    if (!is_new && is_run(i) && !is_run(known->second)) known->second = i;
  }
  std::set<std::size_t> places;
  for (const auto& [sizes, place] : kept) places.insert(place);
  std::vector<sharding::DeviceMesh> meshes;
  for (const std::size_t place : places) meshes.push_back(all[place]);
  return meshes;
}

std::vector<Submesh> submeshes(int devices, const cost::DeviceModel& device,
                               const std::optional<sharding::DeviceMesh>& mesh) {
  if (mesh) return {{mesh->num_devices(), {*mesh}}};
  const int per_node = devices_of_a_node(devices, device.gpus_per_node);
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
