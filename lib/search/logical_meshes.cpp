#include "search/logical_meshes.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace autopar::search {

namespace {

using Sizes = std::vector<int>;

/// Appends to `found` each ordered factorisation of `rest` behind `begun`.
void append_factorisations(int rest, Sizes begun, std::vector<Sizes>& found) {
  if (rest == 1) return found.push_back(std::move(begun));
  if (begun.size() == sharding::DeviceMesh::max_axes) return;
  for (int factor = 2; factor <= rest; ++factor) {
    if (rest % factor != 0) continue;
    Sizes longer = begun;
    longer.push_back(factor);
    append_factorisations(rest / factor, std::move(longer), found);
  }
}

std::vector<Sizes> factorisations(int number) {
  std::vector<Sizes> found;
  append_factorisations(number, {}, found);
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
