#include "search/logical_meshes.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace autopar::search {

namespace {

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

}  // namespace

std::vector<sharding::DeviceMesh> logical_meshes(int devices, int devices_per_node) {
  sharding::DeviceMesh({devices});  // which throws where there are too many
  const bool has_nodes = devices_per_node > 0 && devices > devices_per_node;
  const int within = has_nodes ? devices_per_node : devices;
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

}  // namespace autopar::search
